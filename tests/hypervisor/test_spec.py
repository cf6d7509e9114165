# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Machine specs travel in manifests, so anybody may have written one."""

import json
from typing import Any

import pytest

from hypervisor import MachineSpec, SpecInvalid

GOOD: dict[str, Any] = {
    "memory_mib": 512,
    "disks": ["disk0", "data-1"],
    "machine_type": "pc-q35-5.1",
    "cpu_model": "Westmere-v1",
    "vcpus": 1,
    "accelerator": "tcg",
    "portable": True,
}

HOSTILE: list[tuple[str, list[Any]]] = [
    ("memory_mib", [0, 15, -512, 65537, 1 << 70, 512.0, float("nan"), "512", True, None, [512]]),
    ("vcpus", [0, 17, 1.5, "1", False, None]),
    ("disks", ["disk0", {"disk0": 1}, None, 7, [1], [None], [["disk0"]], ["a"] * 9]),
    ("disks", [["disk0", "disk0"], ["ram"], [""], ["A"], ["a,b"], ["../x"], ["a" * 64], ["a\n"]]),
    ("machine_type", ["q35", "pc", "none", "pc-q35-7.2,accel=kvm", "pc-i440fx-7.2", "", 7.2, None]),
    ("machine_type", ["pc-q35-7.2\n", "pc-q35-\u0667.\u0662", ["pc-q35-7.2"]]),
    ("cpu_model", ["host", "max", "base", "Westmere", "Westmere-v1,+vmx", "help", "?", "", 1]),
    ("cpu_model", ["Westmere-v1\n", "-v1", "A" * 40 + "-v1", {"Westmere-v1": 1}]),
    ("shares", [False, None, 1, "true", []]),
    ("portable", [None, 0, 1, "true", []]),
    ("streams", [False, None, 1, "true", []]),
    ("firmware", ["", "coreboot", None, True, 1, ["bios"]]),
    ("accelerator", ["", "xen", "tcg,tb-size=99999", "TCG", None, ["tcg"], {}]),
]


def test_a_spec_survives_the_way_to_json_and_back() -> None:
    spec = MachineSpec.from_json(GOOD)
    assert spec == MachineSpec(memory_mib=512, disks=("disk0", "data-1"))
    assert MachineSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert spec.to_json() == GOOD
    assert spec.memory_bytes == 512 << 20


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in HOSTILE for value in values]
)
def test_a_hostile_value_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(SpecInvalid) as caught:
        MachineSpec.from_json({**GOOD, field: value})
    assert caught.value.field == field
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [None, 1, "spec", [], [GOOD], {}, {**GOOD, "extra": 1}])
def test_what_is_not_a_spec_is_refused(value: object) -> None:
    with pytest.raises(SpecInvalid):
        MachineSpec.from_json(value)


@pytest.mark.parametrize("field", sorted(GOOD.keys() - {"portable"}))
def test_every_field_must_be_there(field: str) -> None:
    with pytest.raises(SpecInvalid):
        MachineSpec.from_json({name: value for name, value in GOOD.items() if name != field})


@pytest.mark.parametrize("name", ["shares", "streams"])
def test_a_spec_has_a_port_in_json_only_where_it_has_it(name: str) -> None:
    spec = MachineSpec.from_json({**GOOD, name: True})
    assert getattr(spec, name)
    assert spec.to_json() == {**GOOD, name: True}
    assert not getattr(MachineSpec.from_json(GOOD), name)
    with pytest.raises(SpecInvalid):
        MachineSpec(512, ("disk0",), **{name: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("firmware", ["bios", "uefi"])
def test_a_spec_has_a_firmware_in_json_only_where_it_starts_from_its_disk(firmware: str) -> None:
    spec = MachineSpec.from_json({**GOOD, "firmware": firmware})
    assert spec.firmware == firmware
    assert spec.to_json() == {**GOOD, "firmware": firmware}
    assert MachineSpec.from_json(GOOD).firmware == ""
    with pytest.raises(SpecInvalid, match="no disk to start from"):
        MachineSpec(512, (), firmware=firmware)


def test_a_portable_machine_goes_on_under_both_accelerators_and_another_under_its_own() -> None:
    spec = MachineSpec(512, ("disk0",))
    assert spec.accelerators == ("kvm", "tcg")
    assert spec.under("kvm").under("tcg") == spec
    fixed = MachineSpec(512, ("disk0",), accelerator="kvm", portable=False)
    assert fixed.accelerators == ("kvm",)
    with pytest.raises(AssertionError):
        fixed.under("tcg")


def test_a_spec_of_before_there_were_portable_machines_is_not() -> None:
    old = {name: value for name, value in GOOD.items() if name != "portable"}
    assert not MachineSpec.from_json({**old, "machine_type": "pc-q35-7.2"}).portable


def test_a_machine_type_with_a_clock_of_kvm_s_is_not_portable_whatever_it_says() -> None:
    for kind in ("pc-q35-5.2", "pc-q35-7.2", "pc-q35-10.0"):
        spec = MachineSpec(512, ("disk0",), machine_type=kind, accelerator="kvm")
        assert spec.accelerators == ("kvm",)
    assert len(MachineSpec(512, (), machine_type="pc-q35-4.2").accelerators) == 2


def test_a_spec_made_here_is_checked_too() -> None:
    with pytest.raises(SpecInvalid):
        MachineSpec(memory_mib=512, disks=("disk0",), cpu_model="host")
