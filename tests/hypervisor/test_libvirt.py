# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is particular to machines that are domains of libvirt. The daemon is a real one, of the
tests' own; the checkpoint that they resume is that of a machine of the driver `qemu`."""

import dataclasses
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hypervisor import (
    Boot,
    DeviceStateRefused,
    LibvirtDriver,
    Machine,
    MachineFailed,
    MachineState,
    QemuDriver,
)
from hypervisor.choice import choose_driver
from hypervisor.libvirt.daemon import Daemon
from hypervisor.libvirt.domain import DomainIdentity
from hypervisor.qemu.stream import StreamBroken, send
from tests.conftest import requires
from tests.hypervisor.libvirtd import LIBVIRT, PATIENCE, Libvirtd
from tests.hypervisor.site import SPEC, Lines, QemuSite, copy_sparse, open_files
from tests.waiting import eventually

pytestmark = [requires("qemu-system-x86_64", "nbdkit", *LIBVIRT), pytest.mark.machine]

REPOSITORY = Path(__file__).parents[2]


def named(site: QemuSite, name: str) -> None:
    site.wiring = dataclasses.replace(site.wiring, name=name)


def name_of(site: QemuSite) -> str:
    """Of the domain that its machine is."""
    return DomainIdentity.of(site.wiring).name


def read(machine: Machine, name: str) -> str:
    """A file about the machine's process in /proc."""
    return Path(f"/proc/{machine.pid}/{name}").read_text()


def listed(libvirtd: Libvirtd) -> dict[str, str]:
    """The domains that `virsh list` shows, and their states."""
    lines = libvirtd.virsh("list").splitlines()
    return {fields[1]: fields[2] for line in lines if len(fields := line.split()) > 2}


def test_a_machine_moves_between_the_drivers(
    libvirt_site: QemuSite, libvirtd: Libvirtd, short_path: Path
) -> None:
    """From `qemu`, which made the checkpoint, to `libvirt`, and back."""
    named(libvirt_site, "notes-1234")
    machine = libvirt_site.running()
    name = name_of(libvirt_site)
    assert name.startswith("satchel-notes-1234-")
    assert listed(libvirtd)[name] == "running"
    agent = Lines(machine)
    count = int(agent("count"))
    assert agent("write something") == "ok"
    assert agent("devices").split() == ["0x060000", "0x078000", "0x010000", "0x060100"]
    assert "Westmere" in agent("cpu")
    agent.close()
    machine.pause()
    assert eventually(lambda: listed(libvirtd)[name] == "paused")
    machine.save(short_path / "device-state")
    machine.stop()
    assert eventually(lambda: name not in listed(libvirtd))
    assert {path.name for path in open_files(short_path)} == {"nbd.sock"}
    for path in (libvirt_site.wiring.ram, libvirt_site.nbd.socket):
        os.chown(path, 0, 0)  # a QEMU of root has no capability, and may not use another user's
    libvirt_site.driver = QemuDriver()
    machine = libvirt_site.start(None)
    machine.load(short_path / "device-state")
    machine.resume()
    agent = Lines(machine)
    assert int(agent("count")) == count + 1
    assert agent("read") == "something"
    agent.close()


@pytest.mark.nightly
def test_a_first_boot_from_files_that_only_root_can_read(
    libvirt_site: QemuSite, boot_files: Boot, short_path: Path
) -> None:
    files = {name: short_path / f"private-{name}" for name in ("kernel", "initrd")}
    for name, path in files.items():
        path.write_bytes(getattr(boot_files, name).read_bytes())
        path.chmod(0o600)
    machine = libvirt_site.start(Boot(files["kernel"], files["initrd"], boot_files.cmdline))
    agent = Lines(machine)
    agent.ask("count")
    assert agent.answer(PATIENCE) == "1"
    agent.close()
    assert not [name for name in files if (short_path / name).exists()]
    assert all(path.stat().st_uid == 0 for path in files.values())


@pytest.mark.nightly
def test_the_process_is_confined(libvirt_site: QemuSite, short_path: Path) -> None:
    """A user and a group of its own, no capability, QEMU's filter and the launcher's, libvirt's
    mount namespace; and nothing of ours that it could replace."""
    machine = libvirt_site.running()
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{machine.pid}/status").read_text().splitlines()
    )
    (uid,) = set(status["Uid"].split())
    assert int(uid) > 0x70000000
    assert set(status["Gid"].split()) == set(status["Groups"].split()) == {uid}
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp_filters"] == "2"
    groups = dict(line.split(":", 2)[1:] for line in read(machine, "cgroup").splitlines())
    if groups.get("memory", "/") != "/":  # where libvirt finds version 1; 2: test_apparmor.py
        limit = Path("/sys/fs/cgroup/memory", groups["memory"][1:], "memory.limit_in_bytes")
        assert int(limit.read_text()) == (SPEC.memory_mib + 320) << 20
    namespace = Path(f"/proc/{machine.pid}/ns/mnt").readlink()
    assert namespace != Path("/proc/self/ns/mnt").readlink()
    assert short_path.stat().st_uid == 0
    (short_path / "secret").write_text("secret")
    (short_path / "secret").chmod(0o600)
    (short_path / "readable").write_text("of this replica")
    tried = "touch machine/new; touch new; cat secret; cat readable; ls; cat /etc/shadow"
    command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    done = subprocess.run(
        [*command, "sh", "-c", tried],
        cwd=short_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "of this replica"
    assert (short_path / "machine" / "new").exists()
    assert not (short_path / "new").exists()
    other = [*command[:1], f"--reuid={int(uid) + 1}", f"--regid={uid}", "--clear-groups"]
    done = subprocess.run([*other, "cat", str(short_path / "readable")], check=False, text=True)
    assert done.returncode != 0


@pytest.mark.nightly
def test_the_console_is_there_and_kept(
    libvirt_site: QemuSite, libvirtd: Libvirtd, checkpoint: Path
) -> None:
    machine = libvirt_site.running()
    name = name_of(libvirt_site)
    assert Path(libvirtd.virsh("ttyconsole", name).strip()).is_relative_to("/dev/pts")
    agent = Lines(machine)
    assert agent("noise 2000") == "ok"
    assert eventually(lambda: libvirt_site.wiring.console_log.stat().st_size >= 2000)
    assert libvirt_site.wiring.console_log.stat().st_uid == 0
    agent.close()


@pytest.mark.nightly
def test_a_libvirt_that_was_killed_finds_its_domains(
    libvirt_site: QemuSite, libvirtd: Libvirtd, short_path: Path
) -> None:
    machine = libvirt_site.running()
    name = name_of(libvirt_site)
    agent = Lines(machine)
    count = int(agent("count"))
    libvirtd.kill()
    try:
        assert int(agent("count")) == count + 1
        machine.pause()
        machine.save(short_path / "device-state")
        machine.resume()
    finally:
        libvirtd.start()
    assert eventually(lambda: listed(libvirtd).get(name) == "running")
    assert int(agent("count")) == count + 2
    agent.close()
    machine.stop()
    assert eventually(lambda: name not in listed(libvirtd))


@pytest.mark.nightly
def test_a_machine_without_its_owner_is_adopted(
    libvirt_site: QemuSite, libvirtd: Libvirtd, checkpoint: Path, short_path: Path
) -> None:
    copy_sparse(checkpoint / "ram", libvirt_site.wiring.ram)
    leave = (
        "import os, sys; from pathlib import Path; from tests.hypervisor.site import *\n"
        "from hypervisor.libvirt import LibvirtDriver\n"
        "from hypervisor.libvirt.daemon import Daemon\n"
        "folder, uri, state, libvirt, tools = sys.argv[1:]\n"
        "folder = Path(folder); wiring = Wiring(folder, folder / 'ram', {'disk0': uri})\n"
        "machine = LibvirtDriver(folder, Daemon(libvirt), Path(tools)).start(SPEC, wiring, None)\n"
        "machine.load(Path(state)); machine.resume(); os._exit(0)"
    )
    state, tools = checkpoint / "device-state", libvirtd.tools
    places = (str(short_path), libvirt_site.nbd.uri, str(state), libvirtd.uri, str(tools))
    subprocess.run([sys.executable, "-c", leave, *places], cwd=REPOSITORY, check=True, timeout=300)
    machine = libvirt_site.driver.adopt(SPEC, libvirt_site.wiring)
    assert machine.state is MachineState.RUNNING
    agent = Lines(machine)
    assert agent("count") == "2"
    agent.close()
    machine.stop()
    assert eventually(lambda: not listed(libvirtd))


@pytest.mark.nightly
def test_an_operator_suspends_resumes_and_destroys(
    libvirt_site: QemuSite, libvirtd: Libvirtd
) -> None:
    machine = libvirt_site.running()
    name = name_of(libvirt_site)
    agent = Lines(machine)
    libvirtd.virsh("suspend", name)
    agent.ask("count")
    with pytest.raises(TimeoutError):
        agent.answer(seconds=0.3)
    libvirtd.virsh("resume", name)
    assert agent.answer() == "2"
    agent.close()
    usual = int(libvirtd.virsh("schedinfo", name).split("cpu_shares")[1].split()[1])
    machine.weigh(10)
    tenth = f"<shares>{usual // 10}</shares>"
    assert eventually(lambda: tenth in libvirtd.virsh("dumpxml", name))
    libvirtd.virsh("destroy", name)
    assert eventually(lambda: machine.state is MachineState.FAILED)
    with pytest.raises(MachineFailed):
        machine.pause()
    machine.stop()


@pytest.mark.nightly
def test_a_failed_start_says_why_and_leaves_nothing(
    libvirt_site: QemuSite, libvirtd: Libvirtd, boot_files: Boot, short_path: Path
) -> None:
    (short_path / "empty").touch()
    bad = dataclasses.replace(boot_files, kernel=short_path / "empty")
    with pytest.raises(MachineFailed, match="kernel"):
        libvirt_site.start(bad)
    assert eventually(lambda: not listed(libvirtd))
    assert {path.name for path in open_files(short_path)} == {"nbd.sock"}
    machine = libvirt_site.start(None)  # and the next one is not in its way
    (short_path / "bad-state").write_bytes(b"garbage" * 100)
    with pytest.raises(DeviceStateRefused):
        machine.load(short_path / "bad-state")


@pytest.mark.nightly
def test_auto_takes_libvirt_where_a_machine_starts(libvirtd: Libvirtd, short_path: Path) -> None:
    driver, line = choose_driver("auto", short_path, libvirtd.driver(short_path))
    assert isinstance(driver, LibvirtDriver), line
    assert "virsh list" in line
    assert eventually(lambda: not listed(libvirtd))
    assert list(short_path.iterdir()) == []


@pytest.mark.nightly
def test_auto_takes_qemu_where_others_cannot_enter(libvirtd: Libvirtd, short_path: Path) -> None:
    run = short_path / "run"
    driver, line = choose_driver("auto", run, libvirtd.driver(run))
    assert isinstance(driver, QemuDriver)
    assert f"a way for other users into {short_path}" in line
    assert stat.S_IMODE(short_path.stat().st_mode) == 0o700


def test_auto_takes_qemu_where_no_program_can_run(libvirtd: Libvirtd, short_path: Path) -> None:
    """Debian mounts /run so."""
    short_path.chmod(0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "none", short_path], check=True)
    try:
        driver, line = choose_driver("auto", short_path, LibvirtDriver(short_path, libvirtd.daemon))
    finally:
        subprocess.run(["umount", short_path], check=True)
    assert isinstance(driver, QemuDriver)
    assert f"a way to run programs from {short_path}/tools" in line


@pytest.mark.nightly
def test_auto_takes_qemu_where_no_libvirt_answers(short_path: Path) -> None:
    nobody = Daemon(f"qemu+unix:///system?socket={short_path}/none")
    driver, line = choose_driver("auto", short_path, LibvirtDriver(short_path, nobody))
    assert isinstance(driver, QemuDriver)
    assert "a libvirt that answers" in line


@pytest.mark.nightly
def test_a_device_state_is_sent_to_the_machine_alone(
    libvirt_site: QemuSite, short_path: Path
) -> None:
    """The machine's user may put anything in the place of the socket that QEMU listens at."""
    other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    other.bind(str(short_path / "other"))
    other.listen()
    with pytest.raises(StreamBroken, match="another program listens"):
        send(short_path / "other", b"a stranger's", 30, libvirt_site.start(None).pid)
    other.settimeout(30)
    with other.accept()[0] as connection:
        assert connection.recv(4096) == b""
    other.close()
