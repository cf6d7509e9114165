# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""RAM as a volume: nbdkit serves it, nbdfuse makes a file of it, a machine maps the file."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypervisor import Boot, MachineFailed, MachineState, RamMount, RamMountFailed
from tests.conftest import requires
from tests.hypervisor.site import (
    SPEC,
    LazySite,
    Lines,
    Nbd,
    QemuSite,
    copy_sparse,
    make_sparse,
)
from tests.waiting import eventually

pytestmark = [requires("fuse", "nbdfuse", "nbdkit"), pytest.mark.machine]

PAGES = SPEC.memory_bytes // 4096


@pytest.fixture
def volume(short_path: Path, checkpoint: Path) -> Path:
    copy_sparse(checkpoint / "ram", short_path / "volume")
    return short_path / "volume"


@pytest.fixture
def lazy(qemu_site: QemuSite, short_path: Path, volume: Path) -> Iterator[LazySite]:
    site = LazySite(qemu_site, short_path, volume)
    yield site
    site.mount.abort()
    qemu_site.close()
    site.detach()


def test_a_mount_comes_and_goes_without_a_trace(short_path: Path) -> None:
    nbd = Nbd(short_path, "memory", "1M")
    mount = RamMount.mount(nbd.uri, short_path / "memory")
    assert mount.file.stat().st_size == 1 << 20
    with mount.file.open("r+b") as file:
        file.write(b"kept")
    mount.sync()
    assert nbd.count("Write") == 1
    assert nbd.count("Flush") >= 1
    mount.unmount()
    mount.unmount()
    nbd.stop()
    assert {path.name for path in short_path.iterdir()} <= {"nbd.sock", "nbd.log"}
    assert str(short_path) not in Path("/proc/self/mountinfo").read_text()


def test_a_mount_without_a_server_says_why_and_leaves_nothing(short_path: Path) -> None:
    with pytest.raises(RamMountFailed, match=r"No such file|connect"):
        RamMount.mount(f"nbd+unix:///?socket={short_path}/none.sock", short_path / "memory")
    assert list(short_path.iterdir()) == []


def test_a_mount_can_be_adopted(short_path: Path) -> None:
    nbd = Nbd(short_path, "memory", "1M")
    RamMount.mount(nbd.uri, short_path / "memory")
    again = RamMount.adopt(short_path / "memory")
    again.sync()
    again.unmount()
    nbd.stop()
    with pytest.raises(RamMountFailed, match="nothing of ours"):
        RamMount.adopt(short_path / "memory")


def test_sync_reports_a_server_that_cannot_write(short_path: Path) -> None:
    nbd = Nbd(short_path, "memory", "1M", "--filter=error", "error-pwrite-rate=100%")
    mount = RamMount.mount(nbd.uri, short_path / "memory")
    command = "import mmap,sys; f=open(sys.argv[1],'r+b'); mmap.mmap(f.fileno(),4096)[0]=1"
    subprocess.run(["python3", "-c", command, str(mount.file)], check=True)
    with pytest.raises(RamMountFailed, match="cannot write the RAM"):
        mount.sync()
    mount.unmount()
    nbd.stop()


def test_who_is_killed_while_memory_is_flushed_ends_all_the_same(short_path: Path) -> None:
    """What a process has open is closed only when its last thread has ended, and nothing ends one
    that waits for a FUSE file."""
    nbd = Nbd(short_path, "memory", "1M", "--filter=delay", "delay-write=3600")
    mount = RamMount.mount(nbd.uri, short_path / "memory")
    command = "import mmap,sys; f=open(sys.argv[1],'r+b'); mmap.mmap(f.fileno(),4096)[0]=1; input()"
    machine = subprocess.Popen(["python3", "-c", command, str(mount.file)], stdin=subprocess.PIPE)
    command = (
        "import sys; from pathlib import Path; from hypervisor import RamMount\n"
        "while True: RamMount.adopt(Path(sys.argv[1])).sync()"
    )
    daemon = subprocess.Popen([sys.executable, "-c", command, str(short_path / "memory")])
    assert eventually(lambda: nbd.count("Write") == 1)
    daemon.kill()
    ended = eventually(lambda: daemon.poll() is not None)
    mount.abort()
    daemon.wait()
    machine.kill()
    machine.communicate()
    mount.unmount()
    nbd.stop()
    assert ended


@requires("root")
@pytest.mark.parametrize(("read_ahead_kib", "least", "most"), [(0, 4, 4), (128, 64, 128)])
def test_read_ahead_is_what_was_asked_for(
    short_path: Path, read_ahead_kib: int, least: int, most: int
) -> None:
    """On Linux 6.1 as well, where tests/kvm has it run: it has no strict_limit to set."""
    nbd = Nbd(short_path, "memory", "4M")
    mount = RamMount.mount(nbd.uri, short_path / "memory", read_ahead_kib=read_ahead_kib)
    assert mount.tuned
    command = "import mmap,sys; f=open(sys.argv[1],'r+b'); mmap.mmap(f.fileno(),0)[1 << 20]"
    subprocess.run(["python3", "-c", command, str(mount.file)], check=True)
    assert least <= nbd.bytes_read() // 1024 <= most
    mount.unmount()
    nbd.stop()


def test_opening_the_file_again_keeps_its_pages(short_path: Path) -> None:
    nbd = Nbd(short_path, "memory", "1M")
    mount = RamMount.mount(nbd.uri, short_path / "memory")
    for _ in range(3):
        mount.file.read_bytes()
        mount.sync()
    before = nbd.count("Read")
    mount.file.read_bytes()
    assert nbd.count("Read") == before
    mount.unmount()
    nbd.stop()


@requires("root")
def test_a_resumed_machine_reads_only_what_it_touches(lazy: LazySite, checkpoint: Path) -> None:
    machine = lazy.start(None)
    machine.load(checkpoint / "device-state")
    loading = lazy.nbd.count("Read")
    machine.resume()
    agent = Lines(machine)
    assert agent("count") == "2"
    agent.close()
    assert loading < PAGES / 100
    assert lazy.nbd.count("Read") < PAGES / 10


def test_no_huge_page_is_advised(lazy: LazySite) -> None:
    machine = lazy.start(None)
    flags = memory_flags(machine.pid, lazy.mount.file)
    assert flags
    assert "hg" not in flags


def test_generations_on_one_volume(
    lazy: LazySite, checkpoint: Path, short_path: Path, volume: Path
) -> None:
    """The volume alone, taken after sync, and the device state are the whole machine."""
    state = checkpoint / "device-state"
    checksum = ""
    for generation in range(1, 4):
        machine = lazy.start(None)
        machine.load(state)
        machine.resume()
        agent = Lines(machine)
        assert agent("count") == str(generation + 1)
        assert not checksum or agent("sum") == checksum
        checksum = agent("fill 2000000")
        agent.close()
        machine.pause()
        state = short_path / "device-state"
        machine.save(state)
        lazy.mount.sync()
        frozen = short_path / "frozen"
        copy_sparse(volume, frozen)
        machine.resume()
        machine.stop()
        lazy.detach()
        frozen.rename(volume)
        lazy.attach()


def test_a_first_boot_on_a_zero_volume(lazy: LazySite, boot_files: Boot, volume: Path) -> None:
    lazy.detach()
    make_sparse(volume, SPEC.memory_bytes)
    lazy.attach()
    machine = lazy.start(boot_files)
    agent = Lines(machine)
    assert agent("count") == "1"
    agent.close()


def test_ram_that_cannot_be_read_ends_the_machine_with_the_reason(
    lazy: LazySite, checkpoint: Path
) -> None:
    machine = lazy.start(None)
    machine.load(checkpoint / "device-state")
    lazy.nbd.process.kill()
    lazy.nbd.process.wait()
    with contextlib.suppress(MachineFailed):  # if it touches such a page at once
        machine.resume()
    assert eventually(lambda: machine.state is MachineState.FAILED)
    assert "SIGBUS: its RAM file failed to deliver a page" in (machine.failure() or "")
    machine.stop()


def test_a_server_that_hangs_does_not_keep_the_machine_from_ending(
    lazy: LazySite, checkpoint: Path
) -> None:
    machine = lazy.start(None)
    machine.load(checkpoint / "device-state")
    machine.resume()
    agent = Lines(machine)
    agent("fill 1000000")
    os.kill(lazy.nbd.process.pid, signal.SIGSTOP)
    agent.ask("fill 20000000")
    time.sleep(0.5)
    begin = time.monotonic()
    machine.stop()
    assert machine.state is MachineState.STOPPED
    assert not Path(f"/proc/{machine.pid}").exists()
    assert time.monotonic() - begin < 60
    agent.close()


def memory_flags(pid: int, file: Path) -> list[str]:
    """VmFlags of that process's mapping of that file."""
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if str(file) in line:
            inside = True
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []
