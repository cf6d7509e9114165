# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The XML of a domain, and what strangers may try with it. What libvirt itself reads in it is asked
of libvirt, which makes QEMU's arguments of it."""

import dataclasses
import json
import shlex
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypervisor import Boot, MachineSpec, SpecInvalid, Wiring
from hypervisor.libvirt.domain import DomainIdentity, domain_xml
from satchel.errors import UsageError
from tests.hypervisor.libvirtd import Libvirtd

SPEC = MachineSpec(memory_mib=256, disks=("disk0", "disk1"))
BOOT = Boot(Path("/boot/vmlinuz"), Path("/boot/initrd"), "console=ttyS0 root=/dev/vda")
EMULATOR = Path("/run/satchel/tools/emulator")

HOSTILE = (
    "'/><qemu:arg value='-device'/><a b='",
    "</name><devices><hostdev mode='subsystem'/></devices><name>",
    '"]]><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/shadow">]>&x;',
    "&lt;&#60;&amp;",
    "a,server=on,path=/etc/passwd",
    "a,,b=c,readonly=off",
    "-incoming exec:id",
    "%s%n${HOME}$(id)`id`",
    "../../../etc/passwd",
    "ünïcode ☃ and space",
)


def wiring(folder: str = "/run/satchel/r1", export: str = "disk0", name: str = "") -> Wiring:
    run = Path(folder)
    query = urllib.parse.quote(f"{folder}/nbd.sock")
    disks = {
        "disk0": f"nbd+unix:///{urllib.parse.quote(export, safe='')}?socket={query}",
        "disk1": f"nbd+unix:///disk1?socket={query}",
    }
    return Wiring(run, run / "memory" / "ram", disks, name)


def shape(xml: str) -> list[tuple[str, tuple[str, ...]]]:
    """Every element with the names of its attributes: all but the values."""
    return [(one.tag, tuple(one.attrib)) for one in ET.fromstring(xml).iter()]


def arguments(xml: str) -> list[str]:
    return [one.attrib["value"] for one in ET.fromstring(xml).iter() if one.tag.endswith("}arg")]


PLAIN = domain_xml(SPEC, wiring(), BOOT, EMULATOR)


def test_a_domain_is_named_for_its_machine_and_known_by_its_folder() -> None:
    one, two = (
        DomainIdentity.of(wiring(name="notes-12ab")),
        DomainIdentity.of(wiring("/run/r2", name="notes")),
    )
    assert one.name.startswith("satchel-notes-12ab-")
    assert DomainIdentity.of(wiring(name="notes-12ab")) == one
    assert (one.uuid, one.uid) == dataclasses.astuple(DomainIdentity.of(wiring(name="other")))[1:]
    assert one.uuid != two.uuid
    assert one.uid != two.uid
    assert 0x70000000 <= one.uid < 0x7FFFFFFF


def test_nothing_runs_by_itself_and_nothing_else_is_in_it() -> None:
    tags = {tag for tag, _ in shape(PLAIN)}
    assert not tags & {"interface", "graphics", "video", "hostdev", "filesystem", "rng", "sound"}
    resumed = domain_xml(SPEC, wiring(), None, EMULATOR)
    assert arguments(resumed)[-4:] == ["-incoming", "defer", "-option-rom", "linuxboot_dma.bin"]
    assert "/boot/vmlinuz" not in resumed


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("where", ["folder", "export", "name", "cmdline"])
def test_hostile_text_stays_text(where: str, text: str) -> None:
    boot = dataclasses.replace(BOOT, cmdline=text) if where == "cmdline" else BOOT
    given = {} if where == "cmdline" else {where: f"/run/{text}" if where == "folder" else text}
    xml = domain_xml(SPEC, wiring(**given), boot, EMULATOR)
    assert shape(xml) == shape(PLAIN)
    values = [v for one in ET.fromstring(xml).iter() for v in (one.text, *one.attrib.values())]
    if where == "name":
        assert "satchel-machine-" in xml
    else:
        assert any(value and text in value for value in values)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    folder=st.text(),
    export=st.text(),
    name=st.text(),
    cmdline=st.text(),
    shares=st.booleans(),
)
def test_any_text_stays_text_or_is_refused(
    folder: str, export: str, name: str, cmdline: str, shares: bool
) -> None:
    spec = dataclasses.replace(SPEC, shares=shares)
    plain = domain_xml(spec, wiring(), BOOT, EMULATOR)
    boot = dataclasses.replace(BOOT, cmdline=cmdline)
    try:
        found = wiring(f"/run/{folder}", export, name)
        xml = domain_xml(spec, found, boot, EMULATOR)
    except (UsageError, UnicodeEncodeError):
        return
    assert shape(xml) == shape(plain)
    assert arguments(xml)[::2] == arguments(plain)[::2]
    (backend,) = (json.loads(one) for one in arguments(xml) if one.startswith("{"))
    assert backend["mem-path"] == str(found.ram)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.lists(st.text()),
    st.sampled_from(HOSTILE),
)


@settings(max_examples=200, deadline=None)
@given(changed=st.dictionaries(st.sampled_from(sorted(SPEC.to_json())), VALUES, min_size=1))
def test_a_spec_from_a_stranger_is_refused_or_harmless(changed: Mapping[str, Any]) -> None:
    try:
        spec = MachineSpec.from_json({**SPEC.to_json(), **changed})
    except SpecInvalid:
        return
    if set(spec.disks) != set(SPEC.disks):
        return
    xml = ET.fromstring(domain_xml(spec, wiring(), BOOT, EMULATOR))
    assert [one.tag for one in xml.iter("memory")] == ["memory"]
    assert {one.tag for one in xml.iter()} <= {tag for tag, _ in shape(PLAIN)}


def native(libvirtd: Libvirtd, xml: str, folder: Path) -> list[str]:
    """QEMU's arguments, as libvirt makes them of it."""
    (folder / "domain.xml").write_text(xml, encoding="utf-8")
    line = libvirtd.virsh("domxml-to-native", "qemu-argv", "--xml", str(folder / "domain.xml"))
    return shlex.split(line)


def test_libvirt_reads_hostile_text_as_text(libvirtd: Libvirtd, short_path: Path) -> None:
    """Paths, exports and command lines change the values of arguments, and add none."""
    emulator = libvirtd.emulator()
    plain = native(libvirtd, domain_xml(SPEC, wiring(), BOOT, emulator), short_path)
    assert {"-sandbox", "-append", "-blockdev"} <= set(plain)
    for text in HOSTILE:
        boot = dataclasses.replace(BOOT, cmdline=text)
        xml = domain_xml(SPEC, wiring(f"/run/{text}", text, text), boot, emulator)
        found = native(libvirtd, xml, short_path)
        assert len(found) == len(plain), text
        for one, other in zip(plain, found, strict=True):
            assert other == one or not one.startswith("-"), text
        assert found[found.index("-append") + 1] == text
