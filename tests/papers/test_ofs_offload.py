# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The photo application as a real program: in a folder, and on two mounts with a link between."""

from __future__ import annotations

import threading
from pathlib import Path

from papers.ofs.network import Link
from papers.ofs.offload import World, locally
from papers.ofs.photo import enhance, look, program, waiting
from tests.needs import requires

COUNT = 2


def results(folder: Path) -> dict[str, bytes]:
    """Of each photo, what the application is for."""
    found = [path for name in ("enhanced", "small") for path in (folder / name).glob("*.jpg")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_who_looks_waits_for_each_result(tmp_path: Path) -> None:
    program("take", tmp_path, COUNT)
    assert len(waiting(tmp_path)) == COUNT
    read: list[int] = []
    looking = threading.Thread(target=lambda: read.append(look(tmp_path, COUNT)))
    looking.start()
    first, second = waiting(tmp_path)
    enhance(tmp_path, first)
    looking.join(0.2)
    assert not read
    enhance(tmp_path, second)
    looking.join()
    assert read == [sum(map(len, results(tmp_path).values()))]
    assert waiting(tmp_path) == []


@requires("root", "netns", "fuse", "sshd", "ssh")
def test_photos_that_another_node_enhances_are_those_of_one_folder(tmp_path: Path) -> None:
    alone = locally(tmp_path, COUNT)
    assert alone.taken > 0 < alone.enhanced
    assert alone.sent == alone.received == 0
    with World(tmp_path / "w", Link(0.02, 20e6 / 8), "delayed-update") as world:
        session = world.offloaded(COUNT)
        wanted = results(tmp_path / "local")
        assert len(wanted) == 2 * COUNT
        assert results(world.mobile) == results(world.other) == wanted
        photos = sum(path.stat().st_size for path in (world.other / "inbox").iterdir())
        steps = sum(path.stat().st_size for path in (world.other / "work").iterdir())
    assert results(world.root) == wanted
    # The photos go over the link, and what was looked at comes back; the steps stay where they are.
    assert photos < session.sent < photos + steps
    assert sum(map(len, wanted.values())) < session.received < steps
