# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The medium's copy of a carried service: what is on it, and who goes on from it without home."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import Media
from client.carry import CarryRunner
from client.checkpoints import candidates
from images import Manifest
from tests.client.test_carry import SERVICE, Kept
from tests.leftovers import SHORT_PREFIX
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


@pytest.fixture
def kept() -> Iterator[Kept]:
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    made = Kept(folder)
    made.home.carry(SERVICE, made.world.stick)
    yield made
    made.close()
    shutil.rmtree(folder)


def on_stick(kept: Kept) -> Manifest:
    """What the owner has signed there, the newest of it."""
    with Media.open(kept.world.stick) as media:
        return candidates(SERVICE, media, None, kept.world.settings.allowed_signers)[0].manifest


def has_newest(kept: Kept, session: CarryRunner, more: int = 2) -> bool:
    """Wait for so many more copies, and until the medium has the newest one that home has."""
    wanted = session.status()["deltas"] + more
    assert eventually(lambda: session.status()["deltas"] >= wanted)
    return eventually(lambda: on_stick(kept) == kept.checkpoints()[-1])


def test_what_home_signs_comes_onto_the_medium_and_the_next_surrogate_goes_on_from_it(
    kept: Kept,
) -> None:
    session = kept.session(media=kept.world.stick)
    session.move("a")
    kept.says("a", "copied")
    assert has_newest(kept, session)
    rows = {row["place"]: row for row in session.status()["copies"]}
    assert set(rows) == {"home", "medium"}
    assert rows["medium"]["failure"] is None
    assert rows["medium"]["written_bytes"] > 0
    session.close()
    assert on_stick(kept) == kept.checkpoints()[-1]
    kept.home.cut()
    alone = kept.session(media=kept.world.stick)
    assert alone.leader == "medium"
    alone.move("b")
    assert kept.word("b") == "copied"
    kept.says("b", "without home")
    kept.home.mend()
    assert eventually(lambda: alone.status()["deltas"] >= 1)
    alone.close()
    assert kept.word("home") == "without home"
    assert on_stick(kept) == kept.checkpoints()[-1]
