# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whether KVM works here. /dev/kvm may exist, open, and then hang every guest, so: the CPU's flags
first, and where they promise something a machine that must get as far as its firmware's banner."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import subprocess
import time
from pathlib import Path

from hypervisor.machine import MACHINE_TYPE
from hypervisor.qemu.argv import BINARY
from satchel.readiness import readable

PROBE_SECONDS = 30.0
"""Most of it is for hosts that are busy: where KVM itself is emulated and nothing else runs, the
banner takes 3 s."""

REAP_SECONDS = 2.0

DEVICE = Path("/dev/kvm")

_BANNER = b"SeaBIOS"


def virtualises() -> bool:
    """Return whether the processor has virtualisation."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    return "vmx" in flags or "svm" in flags


@functools.cache
def lacking() -> str:
    """What KVM lacks here, one clause; empty if it works. Asked once per process; takes at most
    PROBE_SECONDS and REAP_SECONDS."""
    if not virtualises():
        return "hardware virtualisation (the CPU shows neither vmx nor svm)"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return "access to /dev/kvm"
    return "" if firmware_speaks("kvm") else "a KVM that runs a guest (the probe failed)"


def kvm_denied_to(user: str) -> bool:
    """Whether this host has virtualisation and /dev/kvm, and that account may not use it."""
    if not virtualises():
        return False
    try:
        device, account = DEVICE.stat(), pwd.getpwnam(user)
    except (OSError, KeyError):
        return False
    shift = 0
    if device.st_gid in os.getgrouplist(user, account.pw_gid):
        shift = 3
    if device.st_uid == account.pw_uid:
        shift = 6
    return account.pw_uid != 0 and (device.st_mode >> shift) & 0o6 != 0o6


def firmware_speaks(accelerator: str, seconds: float = PROBE_SECONDS) -> bool:
    """Whether a machine without disks gets to print its firmware's banner in that time."""
    machine = [BINARY, "-nodefaults", "-no-user-config", "-display", "none", "-m", "16"]
    machine += ["-machine", MACHINE_TYPE, "-accel", accelerator, "-net", "none"]
    machine += ["-chardev", "stdio,id=out", "-device", "isa-debugcon,iobase=0x402,chardev=out"]
    quiet = subprocess.DEVNULL
    try:
        probe = subprocess.Popen(machine, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet)
    except OSError:
        return False
    try:
        return _says_banner(probe, time.monotonic() + seconds)
    finally:
        probe.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may hang in the kernel for good
            probe.wait(REAP_SECONDS)


def _says_banner(probe: subprocess.Popen[bytes], deadline: float) -> bool:
    assert probe.stdout is not None
    said = b""
    while _BANNER not in said:
        left = max(0.0, deadline - time.monotonic())
        if not readable([probe.stdout], left):
            return False
        piece = os.read(probe.stdout.fileno(), 4096)
        if not piece:
            return False
        said += piece
    return True
