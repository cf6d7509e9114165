# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A replica whose guest has shares: frozen, thawed elsewhere, and refused where nobody serves."""

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import guestshares.host
from chunkstore import Store
from guestshares import SharesBusy, SharesUnserved
from hypervisor import Boot, MachineSpec, QemuDriver
from replica import MachineSnapshot, Replica
from satchel.ids import ReplicaId
from tests.conftest import requires
from tests.guestshares.share_tree import WRITE, ShareTree
from tests.hypervisor import guest
from tests.replay.guest import HOLDER, SERVICE, SHARES, initial_files
from tests.replica.machine import shell
from volumes import local_resolver

pytestmark = [
    pytest.mark.machine,
    requires("qemu-system-x86_64", "nbdkit", "nbdfuse", "fuse", "busybox", "apt-get", "cc"),
]

SPEC = MachineSpec(memory_mib=192, disks=(), shares=True)
HOLD = """\
mkfifo /tmp/go
holder /satchel/a /tmp/go /tmp/state >/dev/null 2>&1 &
until grep -s . /tmp/state; do sleep 0.05; done
"""
GO_ON = "echo x >/tmp/go; while grep held /tmp/state; do sleep 0.05; done; cat /tmp/state"


class TreeHost:
    """See replica.ShareHost."""

    def __init__(self, tree: ShareTree) -> None:
        self.tree = tree

    def check(self) -> None:
        """The tree is there."""

    def serve(self, session: socket.socket) -> "TreeHost":
        self.tree.serve(session.dup())
        return self

    def close(self) -> None:
        """The line's end is the session's end."""


class Bench:
    """Replicas of the small guest, on one store, with one tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = ShareTree()
        self.store = Store.create(folder / "store")
        holder, initrd = folder / "holder", folder / "initrd.gz"
        subprocess.run(["cc", "-static", "-Os", "-o", holder, HOLDER], check=True)
        initrd.write_bytes(initial_files(SERVICE + SHARES, holder=holder))
        cmdline = "console=ttyS0 quiet panic=-1 no_timer_check"
        self.boot = Boot(guest.make_guest().kernel, initrd, cmdline)

    @contextlib.contextmanager
    def replica(
        self, name: str, frozen: MachineSnapshot | None, *, served: bool = True
    ) -> Iterator[Replica]:
        host = TreeHost(self.tree) if served else None
        made = Replica(
            ReplicaId(name),
            SPEC,
            self.store,
            QemuDriver(),
            self.folder / name,
            adapter="http",
            stateful=True,
            shares=host,
        )
        try:
            if frozen is None:
                made.boot({}, self.boot, local_resolver(self.store))
            else:
                made.resume(frozen, local_resolver(self.store), self.store.read)
            yield made
        finally:
            made.stop()
        assert not made.run_dir.exists()


@pytest.fixture
def bench(short_path: Path) -> Iterator[Bench]:
    made = Bench(short_path)
    yield made
    made.store.close()


def test_shares_go_with_a_checkpoint_and_are_served_where_it_is_resumed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bench.tree
    with bench.replica("here", None) as here:
        assert shell(here, HOLD) == "held\n"
        frozen = here.checkpoint()
        shell(here, "echo later >/satchel/b")
        assert bytes(tree.files[tree.names[b"b"]]) == b"later\n"
        what_is_under_way_holds_a_checkpoint_up(here, tree, monkeypatch)
    with bench.replica("there", frozen) as there:
        assert shell(there, GO_ON).endswith("done\n")
        assert bytes(tree.files[tree.names[b"a"]]) == b"first\nsecond\n"
        assert not tree.locks
    with (
        pytest.raises(SharesUnserved, match="this host does not serve"),
        bench.replica("unserved", frozen, served=False),
    ):
        pass


def what_is_under_way_holds_a_checkpoint_up(
    here: Replica, tree: ShareTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guestshares.host, "SETTLE_SECONDS", 0.5)
    tree.hold = {WRITE}
    tree.waiting.clear()
    tree.held.clear()
    shell(here, "echo much later >/satchel/c &")
    assert tree.waiting.wait(20)
    with pytest.raises(SharesBusy, match="cannot be frozen"):
        here.checkpoint()
    threading.Timer(0.2, tree.held.set).start()
    monkeypatch.undo()
    here.checkpoint()
    assert bytes(tree.files[tree.names[b"c"]]) == b"much later\n"
