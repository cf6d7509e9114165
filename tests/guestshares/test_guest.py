# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Shares in a real guest, which is checkpointed with a file open and goes on at another host."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from guestshares import SharesLine
from hypervisor import Boot, Machine, MachineSpec, QemuDriver, Wiring
from replay import AgentChannel
from tests.conftest import requires
from tests.guestshares.share_tree import ShareTree
from tests.hypervisor import guest
from tests.replay.guest import HOLDER, SERVICE, SHARES, initial_files

pytestmark = [
    pytest.mark.machine,
    requires("qemu-system-x86_64", "busybox", "apt-get", "cc"),
]

SPEC = MachineSpec(memory_mib=192, disks=(), shares=True)
BOOT_SECONDS = 120.0
HOLD = """\
mkfifo /tmp/go
holder /satchel/a /tmp/go /tmp/state >/dev/null 2>&1 &
until grep -s . /tmp/state; do sleep 0.05; done
"""
GO_ON = "echo x >/tmp/go; while grep held /tmp/state; do sleep 0.05; done; cat /tmp/state"


class Place:
    """Where machines with shares are started: one run folder, one RAM file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.wiring = Wiring(folder, folder / "ram", {})
        with self.wiring.ram.open("wb") as file:
            file.truncate(SPEC.memory_bytes)

    @contextmanager
    def machine(self, boot: Boot | None, device_state: Path | None = None) -> Iterator[Machine]:
        machine = QemuDriver().start(SPEC, self.wiring, boot)
        try:
            if device_state:
                machine.load(device_state)
                machine.resume()
            yield machine
        finally:
            machine.stop()
            print(self.wiring.console_log.read_text(errors="replace")[-3000:])
        assert not machine.wiring.shares_socket.exists()


@contextmanager
def host(machine: Machine, tree: ShareTree) -> Iterator[tuple[AgentChannel, SharesLine]]:
    """A host of that machine whose shares are `tree`, with a session that has seen nothing."""
    with AgentChannel.connect(machine.wiring.agent_socket) as channel:
        channel.hello(BOOT_SECONDS)
        line = SharesLine.attach(machine.wiring.shares_socket, channel)
        tree.serve(line.session)
        try:
            yield channel, line
        finally:
            line.close()


def shell(channel: AgentChannel, script: str) -> str:
    status, output = channel.run(["sh", "-c", script], 60)
    assert status == 0, output
    return output.decode()


def test_a_guest_with_a_file_open_and_locked_goes_on_at_another_host(short_path: Path) -> None:
    kernel = guest.make_guest().kernel
    initrd = short_path / "initrd.gz"
    holder = short_path / "holder"
    subprocess.run(["cc", "-static", "-Os", "-o", holder, HOLDER], check=True)
    initrd.write_bytes(initial_files(SERVICE + SHARES, holder=holder))
    boot = Boot(kernel, initrd, "console=ttyS0 quiet panic=-1 no_timer_check")
    tree, here, there = ShareTree(), Place(short_path / "here"), Place(short_path / "there")
    state = short_path / "device-state"
    with here.machine(boot) as machine, host(machine, tree) as (channel, line):
        channel.wait_ready(BOOT_SECONDS)
        assert "fuse" in shell(channel, "grep /satchel /proc/mounts")
        shell(channel, "busybox dd if=/dev/zero of=/satchel/big bs=64k count=20 2>/dev/null")
        assert len(tree.files[tree.names[b"big"]]) == 20 << 16
        assert shell(channel, HOLD) == "held\n"
        assert len(tree.locks) == 1
        assert channel.settle_shares(20)
        machine.pause()
        machine.save(state)
        subprocess.run(["cp", "--sparse=always", here.wiring.ram, there.wiring.ram], check=True)
        assert line.failure is None
    file = tree.names[b"a"]
    assert bytes(tree.files[file]) == b"first\n"
    tree.files[file][:] = b"FIRST\n"
    with there.machine(None, state) as machine, host(machine, tree) as (channel, line):
        assert shell(channel, GO_ON).endswith("done\n")
        assert bytes(tree.files[file]) == b"FIRST\nsecond\n"
        assert shell(channel, "cat /satchel/a") == "FIRST\nsecond\n"
        assert not tree.locks
        assert line.failure is None
