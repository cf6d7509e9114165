# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""From a machine spec to the XML of a domain. Pure: no file is opened, nothing is started.

The machine is the one that hypervisor.qemu.argv makes, device by device and address by address, so
a device state of one driver loads under the other. What libvirt's XML cannot say is taken from
there word by word: the board's switches, the RAM's file, the CPU model, `-incoming defer`. QEMU
takes the last of two values, and libvirt puts these behind its own.

A spec comes from strangers. Every element here is ours; of a spec there are numbers, and names that
MachineSpec has checked. All text is escaped by the XML library, and must be printable.
"""

from __future__ import annotations

import itertools
import uuid
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from hypervisor.machine import Boot, MachineSpec, Wiring
from hypervisor.qemu import argv
from satchel.errors import UsageError
from satchel.names import NAME

FOLDER = "machine"
"""In the run folder: the only place where the machine's process may make files. Sockets of ours
and of QEMU are in it."""

MONITOR = "monitor.sock"
FOLDER_VARIABLE = "SATCHEL_RUN_FOLDER"
"""Tells the emulator which run folder its machine has; defined again in emulator.py."""

DOOR_VARIABLE = "SATCHEL_DOOR"
"""Tells the emulator at which socket a daemon starts QEMU for it; defined again in emulator.py."""

_SCHEMA = "http://libvirt.org/schemas/domain/qemu/1.0"
_NAMES = uuid.UUID("6ad2cb63-1c6b-5b3c-8f0e-8a4a4a3c5f1e")
_FIRST_UID = 0x70000000
_UIDS = 0x0FFFFFFF
_DISK_LETTERS = "abcdefgh"
_TAKEN = ("-machine", "-cpu", "-object")


@dataclass(frozen=True)
class DomainIdentity:
    """Who a domain is. The same run folder gives the same one, in every process.

    name: what `virsh list` shows. uuid: what libvirt knows it by. uid: the user and the group that
    its process has; of a range in which there are no accounts.
    """

    name: str
    uuid: uuid.UUID
    uid: int

    @classmethod
    def of(cls, wiring: Wiring) -> DomainIdentity:
        known = uuid.uuid5(_NAMES, str(wiring.run_dir))
        label = wiring.name or wiring.run_dir.name
        safe = label if NAME.fullmatch(label) else "machine"
        return cls(f"satchel-{safe}-{known.hex[:6]}", known, _FIRST_UID + known.int % _UIDS)


def domain_xml(
    spec: MachineSpec,
    wiring: Wiring,
    boot: Boot | None,
    emulator: Path,
    *,
    group: int | None = None,
) -> str:
    """The XML of a domain that stands still until it is told to run.

    The wiring has passed check_wiring, and its paths are absolute, as are the boot's. group: what
    the process has instead of a group of its own. Raises UsageError for a disk that is not NBD on a
    Unix socket, and for text that is not printable.
    """
    ET.register_namespace("qemu", _SCHEMA)
    who = DomainIdentity.of(wiring)
    root = _begun(spec, wiring)
    _add_board(root, spec, boot)
    _add_devices(_add(root, "devices"), spec, wiring, emulator)
    label = _add(root, "seclabel", type="static", model="dac", relabel="no")
    _add(label, "label", text=f"+{who.uid}:+{who.uid if group is None else group}")
    _add_arguments(root, spec, wiring, boot)
    _check_text(root)
    return ET.tostring(root, encoding="unicode")


def session_xml(spec: MachineSpec, wiring: Wiring, emulator: Path, door: Path) -> str:
    """The XML of a domain of a user's libvirt. Its emulator has the daemon at `door` start QEMU.

    It has what libvirt shows and asks for. The devices are those of hypervisor.qemu.argv.
    """
    ET.register_namespace("qemu", _SCHEMA)
    root = _begun(spec, wiring)
    _add_board(root, spec, None)
    devices = _add(root, "devices")
    _add(devices, "emulator", text=str(emulator))
    for index, name in enumerate(spec.disks):
        disk = _add_disk(devices, index, name, wiring.disks[name])
        if spec.firmware and index == 0:
            _add(disk, "boot", order="1")
    _add(devices, "controller", type="usb", index="0", model="none")
    _add(devices, "memballoon", model="none")
    line = _add(root, f"{{{_SCHEMA}}}commandline")
    _add(line, f"{{{_SCHEMA}}}env", name=DOOR_VARIABLE, value=str(door))
    _check_text(root)
    return ET.tostring(root, encoding="unicode")


def _begun(spec: MachineSpec, wiring: Wiring) -> ET.Element:
    who = DomainIdentity.of(wiring)
    root = ET.Element("domain", type={"tcg": "qemu", "kvm": "kvm"}[spec.accelerator])
    _add(root, "name", text=who.name)
    _add(root, "uuid", text=str(who.uuid))
    _add(root, "memory", text=str(spec.memory_mib), unit="MiB")
    _add(root, "vcpu", text=str(spec.vcpus))
    return root


def _add_board(root: ET.Element, spec: MachineSpec, boot: Boot | None) -> None:
    system = _add(root, "os")
    _add(system, "type", text="hvm", arch="x86_64", machine=spec.machine_type)
    if spec.firmware == "uefi":
        _add(system, "loader", text=str(argv.UEFI_FIRMWARE), type="rom")
    if boot is not None and not spec.firmware:
        _add(system, "kernel", text=str(boot.kernel))
        _add(system, "initrd", text=str(boot.initrd))
        _add(system, "cmdline", text=boot.cmdline)
    features = _add(root, "features")
    _add(features, "acpi")
    _add(features, "vmport", state="off")
    _add(features, "smm", state="off")
    if spec.accelerator == "tcg":
        cache = str(argv.TRANSLATION_CACHE_MIB)
        _add(_add(features, "tcg"), "tb-cache", text=cache, unit="MiB")
    clock = _add(root, "clock", offset="utc")
    _add(clock, "timer", name="rtc", track="guest")
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        _add(root, event, text="destroy")


def _add_devices(devices: ET.Element, spec: MachineSpec, wiring: Wiring, emulator: Path) -> None:
    _add(devices, "emulator", text=str(emulator))
    for index, name in enumerate(spec.disks):
        disk = _add_disk(devices, index, name, wiring.disks[name])
        if spec.firmware and index == 0:
            _add(disk, "boot", order="1")
    _add(devices, "controller", type="pci", index="0", model="pcie-root")
    _add(devices, "controller", type="usb", index="0", model="none")
    ports = {argv.AGENT_PORT: wiring.agent_socket}
    if spec.shares:
        ports[argv.SHARES_PORT] = wiring.shares_socket
    if spec.streams:
        ports[argv.STREAMS_PORT] = wiring.streams_socket
    kind = {"model": "virtio-non-transitional", "ports": str(1 + len(ports))}
    serial = _add(devices, "controller", type="virtio-serial", index="0", **kind)
    _add_address(serial, argv.SERIAL_SLOT)
    console = _add(devices, "serial", type="pty")
    _add(console, "log", file=str(wiring.console_log), append="on")
    _add(_add(console, "target", type="isa-serial", port="0"), "model", name="isa-serial")
    for number, (name, socket) in enumerate(ports.items(), start=1):
        channel = _add(devices, "channel", type="unix")
        _add(channel, "source", mode="bind", path=str(socket))
        _add(channel, "target", type="virtio", name=name)
        place = {"controller": "0", "bus": "0", "port": str(number)}
        _add(channel, "address", type="virtio-serial", **place)
    _add(devices, "memballoon", model="none")


def _add_disk(devices: ET.Element, index: int, name: str, uri: str) -> ET.Element:
    export, socket = argv.parse_uri(uri)
    kind = {"device": "disk", "model": "virtio-non-transitional"}
    disk = _add(devices, "disk", type="network", **kind)
    stop = {"error_policy": "stop", "rerror_policy": "stop"}
    _add(disk, "driver", name="qemu", type="raw", discard="unmap", **stop)
    source = _add(disk, "source", protocol="nbd", name=export)
    _add(source, "host", transport="unix", socket=socket)
    _add(disk, "target", dev=f"vd{_DISK_LETTERS[index]}", bus="virtio")
    _add(disk, "serial", text=name[:20])
    _add_address(disk, argv.FIRST_DISK_SLOT + index)
    return disk


def _add_arguments(root: ET.Element, spec: MachineSpec, wiring: Wiring, boot: Boot | None) -> None:
    monitor = str(wiring.run_dir / FOLDER / MONITOR).replace(",", ",,")
    channel = f"socket,id=satchel,path={monitor},server=on,wait=off"
    arguments = ["-chardev", channel, "-mon", "chardev=satchel,mode=control"]
    fds = {
        "shares_fd": 0 if spec.shares else None,
        "streams_fd": 0 if spec.streams else None,
    }
    whole = argv.command(spec, wiring, boot, monitor_fd=0, agent_fd=0, **fds)
    for option, value in itertools.pairwise(whole):
        if option in _TAKEN:
            arguments += [option, value]
    if boot is None:
        arguments += ["-incoming", "defer"]
        if not spec.firmware:
            arguments += ["-option-rom", "linuxboot_dma.bin"]
    line = _add(root, f"{{{_SCHEMA}}}commandline")
    for argument in arguments:
        _add(line, f"{{{_SCHEMA}}}arg", value=argument)
    _add(line, f"{{{_SCHEMA}}}env", name=FOLDER_VARIABLE, value=str(wiring.run_dir))


def _add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    element.text = text
    return element


def _add_address(device: ET.Element, slot: int) -> None:
    place = {"domain": "0x0000", "bus": "0x00", "slot": f"0x{slot:02x}", "function": "0x0"}
    _add(device, "address", type="pci", **place)


def _check_text(root: ET.Element) -> None:
    for element in root.iter():
        for text in (element.text or "", *element.attrib.values()):
            if not text.isprintable():
                raise UsageError(f"{text!r} cannot be in the XML of a domain")
