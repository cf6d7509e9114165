# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Mounted trees."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shares.fuse import MountSession, SessionOptions
from shares.node.operations import Operations
from tests.shares.fuse.passthrough import Passthrough


@dataclass
class Mounted:
    """path: the mountpoint; thread: what runs the session"""

    path: Path
    session: MountSession
    thread: threading.Thread


Mounter = Callable[..., Mounted]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mounter]:
    """Mounts Operations; unmounted when the test is over."""
    made: list[Mounted] = []

    def one(operations: Operations, options: SessionOptions = SessionOptions()) -> Mounted:  # noqa: B008
        path = tmp_path / f"mounted{len(made)}"
        path.mkdir()
        session = MountSession(operations, path, options)
        thread = threading.Thread(target=session.run)
        thread.start()
        made.append(Mounted(path, session, thread))
        return made[-1]

    yield one
    for mounted in made:
        mounted.session.close()
        mounted.thread.join()
        assert not mounted.path.is_mount()


@pytest.fixture(params=[False, True], ids=["asked", "windows"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Passthrough:
    """A folder behind a session, with and without windows."""
    root = tmp_path / "behind"
    root.mkdir()
    return Passthrough(root, windows=request.param)
