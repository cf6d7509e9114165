# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""From a machine spec to QEMU's arguments. Pure: no file is opened, nothing is started.

A device state loads only into a machine with the same devices at the same addresses and with the
same RAM blocks by name and size. So the identifiers and addresses here are part of what a
checkpoint is: changing one makes every older checkpoint unusable.

- RAM is the object `ram`.
- The console is COM1. 02.0 is the virtio-serial controller with port 1 `org.satchel.agent` and, in
  a machine with shares, port 2 `org.satchel.shares`, then, in one with streams,
  `org.satchel.streams`; 03.0 onwards are the disks in the order of the spec. There is no other
  device that could be left out: no network, display, USB, SATA, SMBus, and no source of random
  numbers.
- A first boot with -kernel puts the option ROM linuxboot_dma.bin among the RAM blocks. A resumed
  machine has no kernel file and gets the same ROM by name.
- A machine that starts from its disk has no such ROM. UEFI is another firmware in the place of
  SeaBIOS, without flash memory: its variables are in RAM.
- The real-time clock runs with the machine, not with the host: it stands still in a checkpoint.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypervisor.machine import LOCK_FILE, PID_FILE, Boot, MachineSpec, Wiring
from satchel.errors import UsageError

BINARY = "qemu-system-x86_64"
AGENT_PORT = "org.satchel.agent"
SHARES_PORT = "org.satchel.shares"
STREAMS_PORT = "org.satchel.streams"
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
TRANSLATION_CACHE_MIB = 256
"""Host memory that TCG may fill with translated code; QEMU's own default is 1 GiB."""

WITHOUT = ("vme",)
"""Features of CPU models that no machine has: many hosts lack `vme`, a help for real mode, that
have all else of Westmere, and no kernel of today uses it."""

PORTABLE_CPU = ("x2apic=off", "kvm=off", "tcg-cpuid=off")
"""What the CPU of a portable machine does without besides: `x2apic`, which KVM adds by itself; and
what either accelerator tells a guest about itself, so that no guest uses a clock or another help
that the other accelerator does not have."""

UEFI_FIRMWARE = Path("/usr/share/ovmf/OVMF.fd")
"""Of Debian's package ovmf. Its size is that of a RAM block, its content is in a device state."""

SERIAL_SLOT = 2
FIRST_DISK_SLOT = 3
_PORTS = {"agent": AGENT_PORT, "shares": SHARES_PORT, "streams": STREAMS_PORT}


def command(
    spec: MachineSpec,
    wiring: Wiring,
    boot: Boot | None,
    *,
    monitor_fd: int,
    agent_fd: int,
    shares_fd: int | None = None,
    streams_fd: int | None = None,
) -> list[str]:
    """The whole command line. The machine stands still until it is told to run.

    The wiring has passed check_wiring, and its paths are absolute. monitor_fd, agent_fd,
    shares_fd, streams_fd: listening Unix sockets that the process inherits, the last two if and
    only if the spec has shares and streams. Raises UsageError for a disk that is not NBD on a Unix
    socket.
    """
    assert (shares_fd is not None) == spec.shares
    assert (streams_fd is not None) == spec.streams
    sockets = {"agent": agent_fd, "shares": shares_fd, "streams": streams_fd}
    return [
        *_process(wiring),
        *_board(spec),
        *_ram(spec, wiring),
        *monitor(monitor_fd),
        *_console(wiring),
        *_ports({name: fd for name, fd in sockets.items() if fd is not None}),
        *(argument for index in range(len(spec.disks)) for argument in _disk(spec, wiring, index)),
        *_start(spec, boot),
    ]


def _process(wiring: Wiring) -> list[str]:
    pid_file = str(wiring.run_dir / (LOCK_FILE if wiring.room.confined else PID_FILE))
    return [BINARY, "-nodefaults", "-no-user-config", "-sandbox", SANDBOX, "-pidfile", pid_file]


def _board(spec: MachineSpec) -> list[str]:
    off = "usb=off,sata=off,smbus=off,vmport=off,smm=off,dump-guest-core=off"
    tcg = f"tcg,tb-size={TRANSLATION_CACHE_MIB}"
    return [
        *("-machine", f"{spec.machine_type},memory-backend=ram,{off}"),
        *("-accel", tcg if spec.accelerator == "tcg" else spec.accelerator),
        *("-cpu", _cpu(spec)),
        *("-smp", str(spec.vcpus)),
        *("-rtc", "base=utc,clock=vm"),
        *("-display", "none"),
        "-no-reboot",
    ]


def _cpu(spec: MachineSpec) -> str:
    without = [f"{feature}=off" for feature in WITHOUT]
    both = PORTABLE_CPU if spec.portable else ()
    return ",".join((spec.cpu_model, *without, *both, "enforce=on"))


def _ram(spec: MachineSpec, wiring: Wiring) -> list[str]:
    backend = {
        "qom-type": "memory-backend-file",
        "id": "ram",
        "size": spec.memory_bytes,
        "mem-path": str(wiring.ram),
        "share": True,
        "prealloc": False,
        "merge": False,
        "dump": False,
    }
    return ["-m", f"{spec.memory_mib}M", "-object", _json(backend)]


def monitor(fd: int, name: str = "monitor") -> list[str]:
    """The arguments for one more monitor, on a listening socket that the process inherits."""
    channel = f"socket,id={name},fd={fd},server=on,wait=off"
    return ["-chardev", channel, "-mon", f"chardev={name},mode=control"]


def _console(wiring: Wiring) -> list[str]:
    path = str(wiring.console_log).replace(",", ",,")
    return ["-chardev", f"file,id=console,path={path},append=on", "-serial", "chardev:console"]


def _ports(sockets: Mapping[str, int]) -> list[str]:
    controller = _virtio("virtio-serial-pci", "serial", SERIAL_SLOT) | {
        "max_ports": 1 + len(sockets)
    }
    arguments = ["-device", _json(controller)]
    for number, (name, fd) in enumerate(sockets.items(), start=1):
        port = {"driver": "virtserialport", "id": f"{name}-port", "bus": "serial.0", "nr": number}
        port |= {"chardev": name, "name": _PORTS[name]}
        arguments += ["-chardev", f"socket,id={name},fd={fd},server=on,wait=off"]
        arguments += ["-device", _json(port)]
    return arguments


def _disk(spec: MachineSpec, wiring: Wiring, index: int) -> list[str]:
    export, socket = parse_uri(wiring.disks[spec.disks[index]])
    node = {
        "driver": "nbd",
        "node-name": f"node{index}",
        "server": {"type": "unix", "path": socket},
        "export": export,
        "discard": "unmap",
    }
    device = _virtio("virtio-blk-pci", f"disk{index}", FIRST_DISK_SLOT + index)
    stop = {"werror": "stop", "rerror": "stop"}
    device |= {"drive": f"node{index}", "serial": spec.disks[index][:20], **stop}
    if spec.firmware and index == 0:
        device["bootindex"] = 0
    return ["-blockdev", _json(node), "-device", _json(device)]


def _start(spec: MachineSpec, boot: Boot | None) -> list[str]:
    incoming = ["-incoming", "defer"] if boot is None else []
    if spec.firmware:
        bios = ["-bios", str(UEFI_FIRMWARE)] if spec.firmware == "uefi" else []
        return ["-S", *incoming, *bios]
    if boot is None:
        return ["-S", *incoming, "-option-rom", "linuxboot_dma.bin"]
    files = ["-kernel", str(boot.kernel), "-initrd", str(boot.initrd)]
    return ["-S", *files, "-append", boot.cmdline]


def parse_uri(uri: str) -> tuple[str, str]:
    """(export name, socket path) of an NBD URI on a Unix socket. Raises UsageError."""
    parts = urllib.parse.urlsplit(uri)
    sockets = urllib.parse.parse_qs(parts.query).get("socket", [])
    if parts.scheme != "nbd+unix" or parts.netloc or len(sockets) != 1:
        raise UsageError(
            f"{uri!r} is not an NBD URI on a Unix socket", fix="nbd+unix:///NAME?socket=PATH"
        )
    if not Path(sockets[0]).is_absolute():
        raise UsageError(f"{uri!r} names its socket by a relative path")
    return urllib.parse.unquote(parts.path.removeprefix("/")), sockets[0]


def _virtio(driver: str, name: str, slot: int) -> dict[str, Any]:
    place = {"id": name, "bus": "pcie.0", "addr": f"{slot:02x}.0"}
    return {"driver": driver, **place, "disable-legacy": "on", "disable-modern": False}


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
