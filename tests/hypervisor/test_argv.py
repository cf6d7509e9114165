# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""QEMU's command line, without QEMU."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from hypervisor import Boot, MachineSpec, Wiring
from hypervisor.qemu import argv
from satchel.errors import UsageError

SPEC = MachineSpec(memory_mib=256, disks=("disk0", "disk1"))
WIRING = Wiring(
    Path("/run/a,b"),
    Path("/run/a,b/memory/ram"),
    {
        "disk1": "nbd+unix:///disk1?socket=/run/a,b/nbd.sock",
        "disk0": "nbd+unix:///disk%200?socket=/run/a%2Cb/nbd.sock",
    },
)
BOOT = Boot(Path("/boot/vmlinuz"), Path("/boot/initrd"), "console=ttyS0 root=/dev/vda")


def command(boot: Boot | None = None, spec: MachineSpec = SPEC) -> list[str]:
    return argv.command(
        spec,
        WIRING,
        boot,
        monitor_fd=7,
        agent_fd=8,
        shares_fd=9 if spec.shares else None,
        streams_fd=10 if spec.streams else None,
    )


def values(option: str, arguments: list[str]) -> list[str]:
    pairs = itertools.pairwise(arguments)
    return [value for name, value in pairs if name == option]


def devices(arguments: list[str]) -> list[dict[str, Any]]:
    return [json.loads(value) for value in values("-device", arguments)]


def test_devices_are_the_same_in_boot_and_resume() -> None:
    for option in ("-device", "-object", "-blockdev", "-machine", "-cpu", "-smp", "-m", "-serial"):
        assert values(option, command(BOOT)) == values(option, command(None))


def test_a_resumed_machine_has_the_boot_rom_and_no_kernel() -> None:
    resumed = command(None)
    assert values("-incoming", resumed) == ["defer"]
    assert values("-option-rom", resumed) == ["linuxboot_dma.bin"]
    assert "-kernel" not in resumed
    booted = command(BOOT)
    assert values("-kernel", booted) == ["/boot/vmlinuz"]
    assert values("-initrd", booted) == ["/boot/initrd"]
    assert values("-append", booted) == ["console=ttyS0 root=/dev/vda"]
    assert "-incoming" not in booted
    assert "-option-rom" not in booted


@pytest.mark.parametrize("firmware", ["bios", "uefi"])
def test_a_machine_with_firmware_starts_from_its_disk(firmware: str) -> None:
    spec = dataclasses.replace(SPEC, firmware=firmware)
    booted, resumed = command(Boot(), spec), command(None, spec)
    assert resumed == [*booted[: booted.index("-S") + 1], "-incoming", "defer",
                       *booted[booted.index("-S") + 1 :]]  # fmt: skip
    assert not {"-kernel", "-append", "-option-rom"} & set(booted)
    assert values("-bios", booted) == (["/usr/share/ovmf/OVMF.fd"] if firmware == "uefi" else [])
    disks = [one for one in devices(booted) if one["driver"] == "virtio-blk-pci"]
    assert [one.get("bootindex") for one in disks] == [0] + [None] * (len(disks) - 1)


@pytest.mark.parametrize("boot", [BOOT, None])
def test_no_machine_runs_before_it_is_told_to(boot: Boot | None) -> None:
    assert "-S" in command(boot)


def test_the_sandbox_denies_all_that_it_can() -> None:
    (sandbox,) = values("-sandbox", command())
    assert sandbox == "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


def test_there_is_no_other_device() -> None:
    arguments = command()
    assert {"-nodefaults", "-no-user-config", "-no-reboot"} <= set(arguments)
    kinds = [device["driver"] for device in devices(arguments)]
    assert kinds == ["virtio-serial-pci", "virtserialport", "virtio-blk-pci", "virtio-blk-pci"]
    assert not {"-netdev", "-nic", "-net", "-usb", "-vga", "-drive"} & set(arguments)
    (board,) = values("-machine", arguments)
    assert {"usb=off", "sata=off", "smbus=off", "vmport=off"} < set(board.split(","))


def test_a_machine_with_shares_has_one_more_port_and_another_machine_is_as_before() -> None:
    ports = [
        [one for one in devices(command(spec=spec)) if one["driver"].startswith("virt")][:3]
        for spec in (SPEC, dataclasses.replace(SPEC, shares=True))
    ]
    assert [one.get("max_ports") for one in ports[0]] == [2, None, None]
    assert [one.get("name") for one in ports[0][:2]] == [None, "org.satchel.agent"]
    assert [one.get("max_ports") for one in ports[1]] == [3, None, None]
    assert ports[1][1] == ports[0][1]
    assert ports[1][2]["name"] == "org.satchel.shares"
    assert (ports[1][2]["id"], ports[1][2]["nr"]) == ("shares-port", 2)
    sockets = values("-chardev", command(spec=dataclasses.replace(SPEC, shares=True)))
    assert "socket,id=shares,fd=9,server=on,wait=off" in sockets


def test_a_machine_with_streams_has_a_port_for_them_behind_that_of_shares() -> None:
    for shares in (False, True):
        arguments = command(spec=dataclasses.replace(SPEC, shares=shares, streams=True))
        ports = [one for one in devices(arguments) if one["driver"] == "virtserialport"]
        assert (ports[-1]["name"], ports[-1]["nr"]) == ("org.satchel.streams", 2 + shares)
        assert "socket,id=streams,fd=10,server=on,wait=off" in values("-chardev", arguments)


def test_disks_come_in_the_order_of_the_spec_at_fixed_addresses() -> None:
    arguments = command()
    disks = [one for one in devices(arguments) if one["driver"] == "virtio-blk-pci"]
    assert [(one["serial"], one["addr"]) for one in disks] == [("disk0", "03.0"), ("disk1", "04.0")]
    nodes = [json.loads(value) for value in values("-blockdev", arguments)]
    assert [node["export"] for node in nodes] == ["disk 0", "disk1"]
    assert {node["server"]["path"] for node in nodes} == {"/run/a,b/nbd.sock"}
    assert [one["drive"] for one in disks] == [node["node-name"] for node in nodes]
    assert all(one["werror"] == one["rerror"] == "stop" for one in disks)


def test_ram_is_a_shared_file_of_the_spec_s_size() -> None:
    (backend,) = (json.loads(value) for value in values("-object", command()))
    assert backend["mem-path"] == "/run/a,b/memory/ram"
    assert backend["size"] == 256 << 20
    assert backend["share"] is True
    assert backend["id"] == "ram"


def test_a_comma_in_a_path_stays_in_the_path() -> None:
    consoles = [one for one in values("-chardev", command()) if one.startswith("file,")]
    assert consoles == ["file,id=console,path=/run/a,,b/console.log,append=on"]


def test_a_cpu_that_lacks_a_feature_is_refused_by_qemu() -> None:
    plain = dataclasses.replace(SPEC, portable=False)
    assert values("-cpu", command(spec=plain)) == ["Westmere-v1,vme=off,enforce=on"]
    assert values("-cpu", command())[0].endswith(",enforce=on")


def test_a_portable_cpu_has_nothing_that_one_accelerator_adds() -> None:
    off = "vme=off,x2apic=off,kvm=off,tcg-cpuid=off"
    for spec in (SPEC, SPEC.under("kvm")):
        assert values("-cpu", command(spec=spec)) == [f"Westmere-v1,{off},enforce=on"]


def test_kvm_only_where_the_spec_says_so() -> None:
    kvm = MachineSpec(memory_mib=256, disks=("disk0", "disk1"), accelerator="kvm")
    assert values("-accel", command(spec=kvm)) == ["kvm"]
    assert values("-accel", command()) == ["tcg,tb-size=256"]


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "disk0",
        "nbd://host/disk0",
        "nbd+unix:///disk0",
        "nbd+unix://host/disk0?socket=/s",
        "nbd+unix:///disk0?socket=relative",
        "nbd+unix:///disk0?socket=/a&socket=/b",
        "file:///etc/passwd",
    ],
)
def test_a_disk_is_on_a_unix_socket_or_refused(uri: str) -> None:
    with pytest.raises(UsageError):
        argv.parse_uri(uri)
