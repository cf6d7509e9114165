# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Under a kernel with AppArmor and KVM, as root: a machine of `libvirt`, and what it may do.

`python -m tests.hypervisor.under_apparmor CHECKPOINT` prints one JSON object. CHECKPOINT is a
folder with `ram`, `disk` and `device-state` of a machine of the tests.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypervisor import LibvirtDriver, Machine, MachineFailed, RamMount, Wiring
from tests.hypervisor.site import SPEC, Lines, Nbd
from tests.waiting import eventually

RUN = Path("/run/satchel/test")
RULES = ("usr.sbin.libvirtd", "abstractions/libvirt-qemu")
PROFILES = ("usr.sbin.libvirtd", "usr.lib.libvirt.virt-aa-helper")
SECONDS = 600.0


def run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


def start_libvirt() -> None:
    run("mount", "-t", "devpts", "-o", "gid=5,mode=620,ptmxmode=666", "devpts", "/dev/pts")
    run("mount", "-t", "securityfs", "securityfs", "/sys/kernel/security")
    for name in RULES:
        Path("/etc/apparmor.d/local", name).write_text("")  # as Debian has it
    run("apparmor_parser", "-r", *(f"/etc/apparmor.d/{name}" for name in PROFILES))
    Path("/run/libvirt").mkdir(exist_ok=True)
    run("virtlogd", "-d")
    run("libvirtd", "-d")
    assert eventually(Path("/run/libvirt/libvirt-sock").exists, SECONDS)


def follow_the_documentation() -> None:
    """Do what docs/libvirt.md tells an operator to do."""
    text = Path("docs/libvirt.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"`(dpkg-statoverride .*)`", text)
    run(*command.split())
    for rules in re.findall(r"```apparmor\n(.*?)```", text, re.DOTALL):
        place = rules.splitlines()[0].removeprefix("# ")
        Path(place).write_text(rules)
    run("apparmor_parser", "-r", f"/etc/apparmor.d/{PROFILES[0]}")


def denials() -> list[str]:
    """What AppArmor has refused so far."""
    return [line for line in run("dmesg").splitlines() if 'apparmor="DENIED"' in line]


def what_it_may(machine: Machine, secret: Path) -> dict[str, Any]:
    """Of the machine's process: label, user and limits; and what a program with its label and user
    can read."""
    folder = Path(f"/proc/{machine.pid}")
    label, _, mode = (folder / "attr" / "current").read_text().strip().partition(" ")
    uid = folder.stat().st_uid
    cgroup = (folder / "cgroup").read_text().strip().split("::")[1]
    limit = Path("/sys/fs/cgroup") / cgroup.strip("/") / ".." / "memory.max"

    def reads(path: Path) -> bool:
        command = ["aa-exec", "-p", label, "cat", str(path)]
        done = subprocess.run(command, check=False, capture_output=True, user=uid, group=uid)
        return done.returncode == 0

    os.chown(secret, uid, uid)
    held = [str(one.readlink()) for one in (folder / "fd").iterdir()]
    return {
        "kvm": any("kvm-vcpu" in one for one in held),
        "label": label,
        "mode": mode,
        "uid": uid,
        "memory": limit.read_text().strip(),
        "reads its kernel": reads(machine.wiring.run_dir / "kernel"),
        "reads its own file elsewhere": reads(secret),
        "reads passwords": reads(Path("/etc/shadow")),
    }


def main(checkpoint: Path) -> dict[str, Any]:
    start_libvirt()
    driver = LibvirtDriver(RUN)
    found: dict[str, Any] = {"lacking": driver.lacking(), "without rules": driver.probe()}
    follow_the_documentation()
    found["with rules"] = driver.probe()
    folder = RUN / "r1"
    folder.mkdir(mode=0o700)
    disk = Nbd(folder, "file", str(checkpoint / "disk"))
    memory = Nbd(folder, "--filter=cow", "file", str(checkpoint / "ram"), name="memory")
    mount = RamMount.mount(memory.uri, folder / "memory")
    wiring = Wiring(folder, mount.file, {"disk0": disk.uri}, "notes-1234")
    try:
        machine = driver.start(SPEC, wiring, None)
    except MachineFailed:
        print("\n".join(denials()), flush=True)
        raise
    try:
        machine.load(checkpoint / "device-state")
        machine.resume()
        agent = Lines(machine)
        agent.ask("count")
        found["count"] = agent.answer(SECONDS)
        agent.close()
        (folder / "kernel").write_bytes(b"of the machine")
        secret = Path("/tmp/secret")
        secret.write_text("not of the machine")
        os.chown(folder / "kernel", machine_uid(machine), -1)
        found |= what_it_may(machine, secret)
        machine.pause()
        machine.save(folder / "device-state")
        found["saved"] = (folder / "device-state").stat().st_size
    finally:
        machine.stop()
        mount.unmount()
        disk.stop()
        memory.stop()
    return found


def machine_uid(machine: Machine) -> int:
    return Path(f"/proc/{machine.pid}").stat().st_uid


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))), flush=True)
