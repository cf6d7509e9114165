# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whole disks: what is read of them, what is refused and why, what an image of one is.

One that starts is in tests/client/test_whole_disk.py.
"""

import dataclasses
import json
import lzma
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hypervisor import Boot, MachineSpec
from images import BuiltImage, DiskImageInvalid, DiskRefused, ImageDamaged, Recipe, build, target
from images.partitions import DiskLayout, read_layout
from images.recipe import RecipeInvalid
from replay import agent_program
from sandbox import Cells
from satchel.errors import NotFoundError, SatchelError, UnsupportedError
from tests.images.small_disk import GPT, MBR, MIB, WITH_SYSTEM, small_disk
from tests.needs import requires

pytestmark = requires("sfdisk", "mke2fs", "debugfs", "qemu-img", "genisoimage", "isoinfo")


def recipe_of(disk: Path, **changes: object) -> Recipe:
    return dataclasses.replace(target(str(disk), "box"), disk_mib=1024, **changes)  # type: ignore[arg-type]


def made(folder: Path, disk: Path, **changes: object) -> BuiltImage:
    return build(recipe_of(disk, **changes), folder / "box", agent=agent_program())


def layout_of(disk: Path) -> DiskLayout:
    with disk.open("rb") as file:
        return read_layout(file)


@pytest.mark.parametrize(("table", "uefi"), [(GPT, False), (MBR, False), (WITH_SYSTEM, True)])
def test_the_partitions_are_those_that_sfdisk_made(tmp_path: Path, table: str, uefi: bool) -> None:
    disk = small_disk(tmp_path / "a.raw", table, at_mib=2 if uefi else 1)
    told = json.loads(subprocess.check_output(["sfdisk", "-J", disk]))["partitiontable"]
    layout = layout_of(disk)
    found = [(one.start // 512, one.size // 512) for one in layout.partitions]
    assert found == [(row["start"], row["size"]) for row in told["partitions"]]
    assert (layout.bios, layout.uefi) == (True, uefi)
    assert layout.partitions[-1].content == "ext"


def test_an_image_is_the_disk_and_what_has_the_agent(tmp_path: Path) -> None:
    disk = small_disk(tmp_path / "a.raw")
    user_data = tmp_path / "user-data"
    user_data.write_text("#cloud-config\nusers: []\n")
    image = made(tmp_path, disk, user_data=str(user_data))
    content = disk.read_bytes()
    assert image.disk.stat().st_size == 1024 * MIB
    assert image.disk.open("rb").read(len(content)) == content, "it is not unmodified"
    assert image.agent_disk is not None
    names = ("/meta-data", "/user-data", "/vendor-data")
    files = {name: told(image.agent_disk, name) for name in names}
    assert b"local-hostname: box" in files["/meta-data"]
    assert files["/user-data"] == user_data.read_bytes()
    assert files["/vendor-data"].startswith(b"#cloud-boothook\n#!/bin/sh\n")
    assert told(image.agent_disk, "/satchel-agent") == agent_program().read_bytes()
    assert b"port=22\n" in told(image.agent_disk, "/service")
    assert b"streams=22\n" in told(image.agent_disk, "/service")
    clock = b"/sys/devices/system/clocksource/clocksource0/current_clocksource"
    assert b"-c 'echo hpet >" + clock + b"'\n" in told(image.agent_disk, "/satchel-agent.service")
    blkid = ["blkid", "-p", "-o", "value", "-s", "LABEL", str(image.agent_disk)]
    assert subprocess.check_output(blkid).strip() == b"cidata"


def told(disk: Path, name: str) -> bytes:
    """A file of an ISO 9660 file system, by a program that knows nothing of us."""
    return subprocess.check_output(["isoinfo", "-R", "-i", disk, "-x", name])


def test_image_json_of_a_whole_disk(tmp_path: Path) -> None:
    image = made(tmp_path, small_disk(tmp_path / "a.raw"))
    value = json.loads((tmp_path / "box" / "image.json").read_text())
    del value["recipe"]
    key = image.key[:12]
    assert value == {
        "version": 2,
        "key": image.key,
        "disk": f"disk-{key}",
        "agent_disk": f"agent-{key}",
        "firmware": "bios",
    }
    assert image.boot(MachineSpec(512, ("disk0", "agent"), firmware="bios")) == Boot()


@pytest.mark.parametrize(
    "change", [{"version": 3}, {"firmware": "coreboot"}, {"firmware": None}, {"agent_disk": None}]
)
def test_another_image_json_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    made(tmp_path, small_disk(tmp_path / "a.raw"))
    path = tmp_path / "box" / "image.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ImageDamaged):
        BuiltImage.load(tmp_path / "box")


def test_it_is_not_built_twice_and_built_again_where_the_disk_changed(tmp_path: Path) -> None:
    disk = small_disk(tmp_path / "a.raw")
    first = made(tmp_path, disk)
    before = first.disk.stat()
    assert made(tmp_path, disk) == first
    assert first.disk.stat() == before
    with disk.open("r+b") as file:
        file.write(b"\xeb\x62")
    second = made(tmp_path, disk)
    assert second.key != first.key
    names = sorted(path.name for path in (tmp_path / "box").iterdir())
    assert names == sorted(["image.json", *(path.name for path in second.files)])


def test_qcow2_is_read_in_a_cell(tmp_path: Path) -> None:
    raw, disk = small_disk(tmp_path / "a.raw"), tmp_path / "a.qcow2"
    convert = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", str(raw), str(disk)]
    subprocess.run(convert, check=True)
    disk.chmod(0o600)
    image = build(recipe_of(disk), tmp_path / "box", agent=agent_program(), cells=Cells())
    content = raw.read_bytes()
    assert image.disk.open("rb").read(len(content)) == content
    assert image.disk.stat().st_uid == Path(tmp_path).stat().st_uid
    assert {path.stat().st_mode & 0o777 for path in image.files} == {0o600}


def without_partitions(folder: Path) -> Path:
    path = folder / "a.raw"
    with path.open("xb") as file:
        file.truncate(8 * MIB)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", path], check=True)
    return path


def with_backing_file(folder: Path) -> Path:
    path, secret = folder / "a.qcow2", folder / "secret"
    secret.write_bytes(bytes(MIB))
    made = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(secret), str(path)]
    subprocess.run(made, check=True)
    return path


def with_bytes(content: bytes, at: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "a.raw"
        path.write_bytes(bytes(at) + content)
        with path.open("r+b") as file:
            file.truncate(2 * MIB)
        return path

    return make


def with_large_sectors(folder: Path) -> Path:
    """A disk with 4096-byte sectors, whose table is eight times as far from the start."""
    path = small_disk(folder / "b.raw")
    table = path.read_bytes()[: 4 * 512]
    large = folder / "a.raw"
    protective = table[:512].ljust(4096, b"\0")
    large.write_bytes(protective + table[512:1024].ljust(4096, b"\0") + table[1024:])
    return large


def cut_short(folder: Path) -> Path:
    path = small_disk(folder / "a.raw")
    with path.open("r+b") as file:
        file.truncate(2 * MIB)
    return path


def with_damaged_gpt(folder: Path) -> Path:
    path = small_disk(folder / "a.raw")
    with path.open("r+b") as file:
        file.seek(512)
        file.write(bytes(8))
    return path


def compressed(folder: Path) -> Path:
    path = folder / "a.raw"
    path.write_bytes(lzma.compress(bytes(MIB)))
    return path


REFUSED: dict[str, tuple[Callable[[Path], Path], type[SatchelError], str]] = {
    "no-table": (without_partitions, DiskRefused, r"one file system \(ext\) without a partition"),
    "large-sectors": (with_large_sectors, DiskRefused, "counts in sectors of 4096 bytes"),
    "luks": (with_bytes(b"LUKS\xba\xbe", 0), DiskRefused, r"an encrypted volume \(LUKS\) without"),
    "iso": (with_bytes(b"CD001", 0x8001), DiskRefused, "the image of a CD or DVD"),
    "zeros": (with_bytes(b"", 0), DiskRefused, "it begins with zeros only"),
    "text": (with_bytes(b"notes", 0), DiskRefused, "it has no partitions"),
    "cut-short": (cut_short, DiskRefused, "reach beyond its end"),
    "damaged-gpt": (with_damaged_gpt, DiskRefused, r"\(GPT\) is damaged or empty"),
    "compressed": (compressed, UnsupportedError, "it is compressed by xz"),
    "no-loader": (
        lambda folder: small_disk(folder / "a.raw", code=b""),
        DiskRefused,
        "no code, which a BIOS would run and it has no EFI system partition",
    ),
    "no-agent": (
        lambda folder: small_disk(folder / "a.raw", paths=("/etc/passwd",)),
        DiskRefused,
        "it has no cloud-init",
    ),
    "backing-file": (with_backing_file, DiskImageInvalid, "names a backing file"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_disk_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    make, error, why = REFUSED[name]
    with pytest.raises(error, match=why):
        made(tmp_path, make(tmp_path))
    assert list((tmp_path / "box").iterdir()) == []


def test_what_a_recipe_asks_for_the_disk_must_have(tmp_path: Path) -> None:
    disk = small_disk(tmp_path / "a.raw")
    with pytest.raises(DiskRefused, match="no EFI system partition"):
        made(tmp_path, disk, firmware="uefi")
    with pytest.raises(NotFoundError, match="no disk image"):
        made(tmp_path, disk, user_data=str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("contract", 'contract = "replay"\ndisk = "a.raw"'),
        ("command", 'disk = "a.raw"\ncontract = "carry"\ncommand = "x"'),
        ("packages", 'disk = "a.raw"\ncontract = "carry"\npackages = ["x"]'),
        ("user-data", 'user-data = "x"'),
        ("firmware", 'firmware = "uefi"'),
    ],
)
def test_a_recipe_of_a_disk_that_cannot_be_meant(tmp_path: Path, key: str, text: str) -> None:
    folder = tmp_path / "box"
    folder.mkdir()
    (folder / "recipe.toml").write_text(f'name = "box"\n{text}\n')
    with pytest.raises(RecipeInvalid) as caught:
        Recipe.load(folder)
    assert caught.value.key == key
