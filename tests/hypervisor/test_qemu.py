# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is particular to machines that are QEMU processes."""

import dataclasses
import grp
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from hypervisor import (
    Boot,
    DeviceStateRefused,
    Machine,
    MachineFailed,
    MachineSpec,
    MachineState,
    MachineUnsupported,
    QemuDriver,
    Wiring,
    kvm_denied_to,
)
from hypervisor.qemu import abilities, kvm, launch
from hypervisor.qemu.argv import BINARY
from hypervisor.qemu.guest import QemuMachine
from satchel.errors import UsageError
from tests.conftest import requires
from tests.hypervisor.site import (
    SPEC,
    Lines,
    Nbd,
    QemuSite,
    make_sparse,
    open_files,
)
from tests.waiting import eventually

pytestmark = [requires("qemu-system-x86_64", "nbdkit"), pytest.mark.machine]

REPOSITORY = Path(__file__).parents[2]


def status_of(machine: Machine) -> str:
    return Path(f"/proc/{machine.pid}/status").read_text()


def processes_of(folder: Path) -> list[str]:
    """Every QEMU whose command line names that folder."""
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if exists(path)]
    return [str(one) for one in commands if b"qemu-system" in one and bytes(folder) in one]


def exists(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def test_the_process_is_confined(qemu_site: QemuSite) -> None:
    machine = qemu_site.running()
    status = status_of(machine)
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp_filters:\t2" in status
    assert "CapEff:\t0000000000000000" in status
    assert os.getsid(machine.pid) == machine.pid


def test_the_guest_sees_two_devices_and_nothing_more(qemu_site: QemuSite) -> None:
    """Host bridge, virtio-serial, the disk, the ISA bridge; and QEMU had nothing to warn of."""
    machine = qemu_site.running()
    agent = Lines(machine)
    assert agent("devices").split() == ["0x060000", "0x078000", "0x010000", "0x060100"]
    assert agent("disks").split() == [f"disk0={(16 << 20) // 512}"]
    assert "Westmere" in agent("cpu")
    agent.close()
    said = (qemu_site.wiring.run_dir / "qemu.log").read_text().splitlines()
    assert not [line for line in said if "is deprecated" not in line]  # by the QEMU of Debian 13


def test_the_console_is_kept(checkpoint: Path) -> None:
    assert "ready: org.satchel.agent" in (checkpoint / "console.log").read_text()


def test_a_guest_that_floods_its_console_goes_on_and_fills_no_disk(
    qemu_site: QemuSite, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(launch.__file__).read_text().replace("FILE_LIMIT = 16 << 20", "FILE_LIMIT = 8192")
    (short_path / "launch.py").write_text(source)
    monkeypatch.setattr(launch, "__file__", str(short_path / "launch.py"))
    machine = qemu_site.running()
    agent = Lines(machine)
    assert agent("noise 20000") == "ok"
    assert agent("count")
    agent.close()
    assert qemu_site.wiring.console_log.stat().st_size == 8192


def test_a_disk_write_is_flushed_when_pause_returns(qemu_site: QemuSite) -> None:
    machine = qemu_site.running()
    agent = Lines(machine)
    flushes = qemu_site.nbd.count("Flush")
    assert agent("direct hello") == "ok"
    assert qemu_site.nbd.count("Flush") == flushes
    machine.pause()
    assert qemu_site.nbd.count("Flush") == flushes + 1
    assert qemu_site.disk.read_bytes().startswith(b"hello")
    agent.close()


def test_disks_go_on_after_save_and_in_the_next_generation(
    qemu_site: QemuSite, short_path: Path
) -> None:
    machine = qemu_site.running()
    agent = Lines(machine)
    agent("write one")
    machine.pause()
    machine.save(short_path / "device-state")
    machine.resume()
    assert agent("write two") == "ok"
    machine.pause()
    machine.save(short_path / "device-state")
    machine.stop()
    agent.close()
    assert qemu_site.disk.read_bytes().startswith(b"two")
    machine = qemu_site.start(None)
    machine.load(short_path / "device-state")
    machine.resume()
    agent = Lines(machine)
    assert agent("read") == "two"
    assert agent("write three") == "ok"
    agent.close()


def test_a_disk_that_fails_pauses_the_machine_and_resume_tries_again(
    qemu_site: QemuSite, short_path: Path
) -> None:
    trouble = short_path / "trouble"
    error = ["--filter=error", "error-pwrite-rate=100%", f"error-file={trouble}"]
    nbd = Nbd(short_path, "file", str(qemu_site.disk), *error, name="bad-nbd")
    qemu_site.wiring = dataclasses.replace(qemu_site.wiring, disks={"disk0": nbd.uri})
    machine = qemu_site.running()
    agent = Lines(machine)
    assert agent("write fine") == "ok"
    trouble.touch()
    agent.ask("write retried")
    assert eventually(lambda: machine.state is MachineState.PAUSED)
    assert "disk node0 failed a write" in (machine.failure() or "")
    trouble.unlink()
    machine.resume()
    assert agent.answer() == "ok"
    assert machine.failure() is None
    assert agent("read") == "retried"
    agent.close()
    machine.stop()
    nbd.stop()


def test_a_guest_that_turns_itself_off(qemu_site: QemuSite) -> None:
    machine = qemu_site.running()
    agent = Lines(machine)
    agent.ask("off")
    assert eventually(lambda: machine.state is MachineState.FAILED)
    assert "exit status 0: the guest turned itself off" in (machine.failure() or "")
    agent.close()


def test_a_killed_qemu_is_reported_with_signal_command_and_output(qemu_site: QemuSite) -> None:
    machine = qemu_site.running()
    qemu_site.kill(machine)
    failure = machine.failure() or ""
    assert "was ended by SIGKILL" in failure
    assert "command: qemu-system-x86_64 -nodefaults" in failure
    assert "output: " in failure
    assert "console: " in failure


def test_a_failed_start_says_why_and_leaves_nothing(
    qemu_site: QemuSite, boot_files: Boot, short_path: Path
) -> None:
    bad = dataclasses.replace(boot_files, kernel=short_path / "no-kernel")
    with pytest.raises(MachineFailed) as caught:
        qemu_site.start(bad)
    message = str(caught.value)
    assert "exit status 1" in message
    assert "qemu-system-x86_64 -nodefaults" in message
    assert "could not open kernel file" in message
    assert not processes_of(short_path)
    assert {path.name for path in open_files(short_path)} == {"nbd.sock"}


def test_an_interrupted_start_leaves_nothing(
    qemu_site: QemuSite, boot_files: Boot, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: QemuMachine, *, incoming: bool) -> None:
        assert eventually(lambda: bool(processes_of(short_path)))
        raise KeyboardInterrupt

    monkeypatch.setattr(QemuMachine, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        qemu_site.start(boot_files)
    assert not processes_of(short_path)
    assert {path.name for path in open_files(short_path)} == {"nbd.sock"}


def test_a_device_state_of_a_larger_machine_is_refused(
    qemu_site: QemuSite, checkpoint: Path, short_path: Path
) -> None:
    spec = dataclasses.replace(SPEC, memory_mib=64)
    make_sparse(short_path / "small", spec.memory_bytes)
    wiring = dataclasses.replace(qemu_site.wiring, ram=short_path / "small")
    machine = qemu_site.driver.start(spec, wiring, None)
    with pytest.raises(DeviceStateRefused, match="load of migration failed"):
        machine.load(checkpoint / "device-state")
    machine.stop()


def test_a_machine_outlives_us_and_is_adopted(qemu_site: QemuSite, short_path: Path) -> None:
    machine = qemu_site.running()
    agent = Lines(machine)
    count = int(agent("count"))
    agent.close()
    machine.pause()
    machine.save(short_path / "device-state")
    machine.stop()
    leave = (
        "import os, sys; from pathlib import Path; from tests.hypervisor.site import *\n"
        "folder, uri = Path(sys.argv[1]), sys.argv[2]\n"
        "wiring = Wiring(folder, folder / 'ram', {'disk0': uri})\n"
        "machine = QemuDriver().start(SPEC, wiring, None)\n"
        "machine.load(folder / 'device-state'); machine.resume(); os._exit(0)"
    )
    command = [sys.executable, "-c", leave, str(short_path), qemu_site.nbd.uri]
    subprocess.run(command, cwd=REPOSITORY, check=True, timeout=60)
    adopted = qemu_site.driver.adopt(SPEC, qemu_site.wiring)
    assert adopted.state is MachineState.RUNNING
    agent = Lines(adopted)
    assert int(agent("count")) == count + 1
    agent.close()
    adopted.pause()
    adopted.save(short_path / "device-state")
    adopted.stop()
    assert not processes_of(short_path)
    assert {path.name for path in open_files(short_path)} == {"nbd.sock"}


def test_a_run_folder_with_a_long_path_is_refused(qemu_site: QemuSite, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    wiring = dataclasses.replace(qemu_site.wiring, run_dir=deep)
    with pytest.raises(UsageError, match="too long"):
        qemu_site.driver.start(SPEC, wiring, None)
    assert list(deep.iterdir()) == []


def test_what_this_host_lacks_is_named() -> None:
    driver = QemuDriver()
    spec = MachineSpec(64, (), machine_type="pc-q35-99.9", cpu_model="Unicorn-v1")
    with pytest.raises(MachineUnsupported) as caught:
        driver.check(spec)
    assert caught.value.lacking == (
        "a QEMU with the machine type pc-q35-99.9",
        "a QEMU with the CPU model Unicorn-v1",
    )
    with pytest.raises(MachineUnsupported, match=r"the features .*avx512f.* of the CPU model"):
        driver.check(MachineSpec(64, (), cpu_model="Icelake-Server-v1"))


def test_start_refuses_what_this_host_lacks(short_path: Path) -> None:
    spec = MachineSpec(64, (), cpu_model="Unicorn-v1")
    with pytest.raises(MachineUnsupported):
        QemuDriver().start(spec, Wiring(short_path, short_path / "ram"), None)
    assert list(short_path.iterdir()) == []


def test_a_host_without_qemu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MachineUnsupported, match="it lacks qemu-system-x86_64"):
        QemuDriver().check(SPEC)


@requires("root")
def test_who_may_not_use_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the mode of the device, as udev of Debian makes it: for root and a group."""
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(kvm, "DEVICE", device)
    monkeypatch.setattr(kvm, "virtualises", lambda: True)
    group = grp.getgrnam("tty").gr_gid
    for mode, owner, denied in ((0o660, 0, True), (0o666, 0, False), (0o600, 1, False)):
        os.chown(device, owner, group)
        device.chmod(mode)
        assert kvm_denied_to(pwd.getpwuid(1).pw_name) == denied
        assert not kvm_denied_to("root")
    os.chown(device, 0, pwd.getpwuid(1).pw_gid)
    device.chmod(0o660)
    assert not kvm_denied_to(pwd.getpwuid(1).pw_name)
    device.chmod(0o600)
    monkeypatch.setattr(kvm, "virtualises", lambda: False)  # no group helps such a host
    assert not kvm_denied_to(pwd.getpwuid(1).pw_name)


def test_kvm_needs_the_flags_of_the_cpu() -> None:
    flags = Path("/proc/cpuinfo").read_text().split()
    if "vmx" in flags or "svm" in flags:
        assert bool(kvm.lacking()) != kvm.firmware_speaks("kvm")
    else:
        assert "hardware virtualisation" in kvm.lacking()
        with pytest.raises(MachineUnsupported, match="hardware virtualisation"):
            QemuDriver().check(dataclasses.replace(SPEC, accelerator="kvm"))


def test_a_qemu_that_hangs_hangs_no_probe(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As guests do on hosts whose /dev/kvm opens and does not work. It ignores polite signals."""
    (short_path / BINARY).write_text("#!/bin/sh\ntrap '' TERM INT HUP\nexec sleep 600\n")
    (short_path / BINARY).chmod(0o755)
    monkeypatch.setenv("PATH", f"{short_path}:{os.environ['PATH']}")
    monkeypatch.setattr(abilities, "_ASK_SECONDS", 0.5)
    abilities.ask.cache_clear()
    try:
        assert not kvm.firmware_speaks("kvm", seconds=0.5)
        assert abilities.ask("tcg").cpus == {}
        with pytest.raises(MachineUnsupported, match="the machine type"):
            QemuDriver().check(SPEC)
    finally:
        abilities.ask.cache_clear()


def test_the_probe_notices_whether_a_guest_runs() -> None:
    assert kvm.firmware_speaks("tcg", seconds=30)
    assert not kvm.firmware_speaks("no-such-accelerator")
