# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The medium's copy of a carried service: what is on it, and who goes on from it without home."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.service import ServiceSession
from client.session.checkpoints import OwnerOverrides, candidates
from client.state.last_seen import StateOlder
from images import Manifest
from media import Media
from tests.client.test_carry import SERVICE, CarriedWorld
from tests.client.world import carried_of
from tests.leftovers import SHORT_PREFIX
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


@pytest.fixture
def kept() -> Iterator[CarriedWorld]:
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    made = CarriedWorld(folder)
    made.home.carry(SERVICE, made.world.stick)
    yield made
    made.close()
    shutil.rmtree(folder)


def on_stick(kept: CarriedWorld, stick: Path | None = None) -> Manifest:
    """What the owner has signed there, the newest of it."""
    with Media.open(stick or kept.world.stick) as media:
        return candidates(SERVICE, [media], None, kept.world.settings.allowed_signers)[0].manifest


def has_newest(kept: CarriedWorld, session: ServiceSession, more: int = 2) -> bool:
    """Wait for so many more copies, and until the medium has the newest one that home has."""
    wanted = session.status()["deltas"] + more
    assert eventually(lambda: session.status()["deltas"] >= wanted)
    return eventually(lambda: on_stick(kept) == kept.checkpoints()[-1])


def test_what_home_signs_comes_onto_the_medium_and_the_next_surrogate_goes_on_from_it(
    kept: CarriedWorld,
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


def test_two_media_get_what_home_signs_and_one_may_be_pulled_out(kept: CarriedWorld) -> None:
    second = kept.world.folder / "second"
    second.mkdir()
    Media.init(second).close()
    kept.home.carry(SERVICE, second)
    session = kept.session(media=[kept.world.stick, second])
    session.move("a")
    kept.says("a", "on both")
    assert has_newest(kept, session)
    assert eventually(lambda: on_stick(kept, second) == kept.checkpoints()[-1])
    places = [row["place"] for row in session.status()["copies"]]
    assert places == ["home", "medium", f"medium at {second}"]
    kept.world.stick.rename(kept.world.folder / "pulled")
    kept.says("a", "on the second")
    session.close()
    assert on_stick(kept, second) == kept.checkpoints()[-1]
    (kept.world.folder / "pulled").rename(kept.world.stick)
    kept.home.cut()
    alone = kept.session(media=[kept.world.stick, second])
    alone.move("b")
    assert kept.word("b") == "on the second"


def test_a_medium_that_is_behind_is_named_and_refused_unless_it_is_accepted(
    kept: CarriedWorld,
) -> None:
    session = kept.session(media=kept.world.stick)
    session.move("a")
    kept.says("a", "on both")
    assert has_newest(kept, session)
    older = kept.world.folder / "older"
    session.move("home")
    shutil.copytree(kept.world.stick, older)
    kept.says("home", "only at home")
    session.close()
    kept.home.cut()
    with pytest.raises(StateOlder, match="older state of kept") as refused:
        kept.session(media=older)
    assert "--accept-older" in refused.value.fix
    accepted = kept.session(media=older, accepted=OwnerOverrides(older=on_stick(kept, older).id))
    accepted.move("b")
    assert kept.word("b") == "on both"
    kept.says("b", "instead")
    kept.home.mend()
    assert eventually(lambda: accepted.status()["deltas"] >= 1)
    accepted.close()
    assert kept.word("home") == "instead"


def test_home_that_has_gone_on_keeps_what_it_has(kept: CarriedWorld) -> None:
    session = kept.session(media=kept.world.stick)
    session.close()
    kept.home.cut()
    alone = kept.session(media=kept.world.stick)
    alone.move("a")
    kept.says("a", "without home")
    kept.says("home", "another key")
    later = kept.home.home.service(SERVICE).copy().manifest
    kept.home.mend()
    assert eventually(lambda: "later state" in str(alone.status()["delta_failure"]))
    assert kept.checkpoints()[-1] == later
    assert kept.word("a") == "without home"
    assert on_stick(kept) != later


def test_without_home_a_lost_leader_is_replaced_from_the_medium_where_the_person_says(
    kept: CarriedWorld,
) -> None:
    session = kept.session(media=kept.world.stick)
    session.move("a")
    kept.says("a", "signed")
    assert has_newest(kept, session)
    kept.home.cut()
    kept.says("a", "never signed")
    kept.crash("a")
    kept.spots["a"].cut()
    session.move("b")
    assert kept.word("b") == "signed"
    (loss,) = carried_of(session).losses
    assert (loss.surrogate, loss.successor) == ("a", "b")
    assert "b goes on from" in str(loss)
    kept.says("b", "after")
    kept.home.mend()
    assert has_newest(kept, session, more=1)
    session.move("home")
    assert kept.word("home") == "after"
    kept.spots["a"].mend()


def test_a_session_that_ends_without_home_leaves_the_machine_where_it_is(
    kept: CarriedWorld,
) -> None:
    session = kept.session(media=kept.world.stick)
    session.move("a")
    kept.says("a", "left there")
    kept.home.cut()
    session.close()
    assert kept.word("a") == "left there"
    kept.home.mend()
    again = kept.session(media=kept.world.stick)
    assert again.leader == "a"
    again.move("home")
    assert kept.word("home") == "left there"
