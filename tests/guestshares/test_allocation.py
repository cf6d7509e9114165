# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""fallocate(2) in a guest: what it does to the share, and what it refuses."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from guestshares import CallHost, GuestShares
from guestshares.kernel import Opcode
from hypervisor import Boot
from replay import AgentChannel
from shares.node import KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE, open_file
from tests.conftest import requires
from tests.guestshares.edges import edges_of, leads, write_at
from tests.guestshares.home import Home
from tests.guestshares.kernel import Kernel
from tests.guestshares.test_guest import BOOT_SECONDS, Place, shell
from tests.hypervisor import guest
from tests.replay.guest import ALLOCATOR, SERVICE, SHARES, initial_files

pytestmark = requires("fuse")

BLOCK = 4096
COLLAPSE_RANGE = 8
ZEROS = ((BLOCK + 100, 3 * BLOCK + 100), (8 * BLOCK, 9 * BLOCK))


@pytest.mark.machine
@requires("qemu-system-x86_64", "busybox", "apt-get", "cc")
def test_a_program_in_a_guest_reserves_room_and_makes_holes(home: Home, short_path: Path) -> None:
    allocator, initrd = short_path / "allocator", short_path / "initrd.gz"
    subprocess.run(["cc", "-static", "-Os", "-o", allocator, ALLOCATOR], check=True)
    initrd.write_bytes(initial_files(SERVICE + SHARES, allocator=allocator))
    boot = Boot(guest.make_guest().kernel, initrd, "console=ttyS0 quiet panic=-1 no_timer_check")
    with (
        Place(short_path / "here").machine(boot) as machine,
        AgentChannel.connect(machine.wiring.agent_socket) as channel,
    ):
        channel.hello(BOOT_SECONDS)
        host = CallHost(home.keeper.at_home)
        served = GuestShares.attach(machine.wiring.shares_socket, channel, host)
        try:
            channel.wait_ready(BOOT_SECONDS)
            said = shell(channel, "allocator /satchel/film")
            read = shell(channel, "md5sum /satchel/film")
        finally:
            served.close()
    wanted = bytearray(b"x" * 16 * BLOCK + bytes(2 * BLOCK))
    for first, end in ZEROS:
        wanted[first:end] = bytes(end - first)
    sizes = (16, 16, 16, 17, 18, 18, 18)
    refused = errno.EOPNOTSUPP
    assert [tuple(map(int, line.split()[1:])) for line in said.splitlines()] == [
        (error, size * BLOCK)
        for error, size in zip((0, 0, 0, 0, 0, refused, refused), sizes, strict=True)
    ]
    home.leave()
    assert (home.papers / "film").read_bytes() == wanted
    local = subprocess.run(["md5sum"], input=bytes(wanted), capture_output=True, check=True)
    assert read.split()[0] == local.stdout.decode().split()[0]


def test_two_replicas_make_a_hole_once_and_a_third_finds_it(home: Home) -> None:
    """The second one's would take away what somebody has written there since."""
    guest, distant = home.guest(), home.distant()

    def punch(kernel: Kernel) -> None:
        file = kernel.lookup("film", 1)
        handle = kernel.open(file, 1, os.O_RDWR)
        kernel.allocate(file, handle, KEEP_SIZE | PUNCH_HOLE, 0, BLOCK, 1)
        kernel.allocate(file, handle, 0, 2 * BLOCK, BLOCK, 1)
        with pytest.raises(OSError, match="supported") as refused:
            kernel.allocate(file, handle, COLLAPSE_RANGE, 0, BLOCK, 1)
        assert refused.value.errno == errno.EOPNOTSUPP
        kernel.release(file, handle)

    home.writes("film", "x" * 2 * BLOCK)
    punch(guest)
    with home.other() as node, open_file(node, "film", "r+b") as file:
        file.write(b"since")
    punch(distant)
    home.leave()
    film = (home.papers / "film").read_bytes()
    assert film == b"since" + bytes(BLOCK - 5) + b"x" * BLOCK + bytes(BLOCK)


def test_a_hole_at_a_surrogate_comes_behind_what_was_written_there(home: Home) -> None:
    (home.papers / "film").write_bytes(b"x" * 3 * BLOCK)
    with edges_of(home) as edges:
        edges.grant()
        near = edges.guest()
        first = leads(near, home, 20)
        home.logs(first + 2)
        file = near.lookup("film", first)
        handle = near.open(file, first, os.O_RDWR)
        write_at(near, file, handle, b"y" * BLOCK, first)
        near.allocate(file, handle, ZERO_RANGE | KEEP_SIZE, 100, BLOCK, first)
        write_at(near, file, handle, b"z", first)
        wanted = b"z" + b"y" * 99 + bytes(BLOCK) + b"x" * (2 * BLOCK - 100)
        assert near.read(file, handle, first) == wanted[:BLOCK]
        near.ask(Opcode.FSYNC, handle.to_bytes(8, "little") + bytes(8), file, first)
        near.release(file, handle)
    home.leave()
    assert (home.papers / "film").read_bytes() == wanted
