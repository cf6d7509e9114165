# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Disk images as raw files."""

import bz2
import gzip
import io
import lzma
import os
import struct
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from images import DiskImageInvalid, raw_view
from satchel.errors import NotFoundError, UnsupportedError, UsageError
from tests.needs import requires

CONTENT = b"".join(struct.pack("<I", n) * 1024 for n in range(64)) + bytes(1 << 20)


def qcow2(folder: Path, *options: str) -> Path:
    raw, image = folder / "raw", folder / "image.qcow2"
    raw.write_bytes(CONTENT)
    argv = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", *options, str(raw), str(image)]
    subprocess.run(argv, check=True)
    return image


def test_a_raw_file_is_its_own_view(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(CONTENT)
    with raw_view(path, tmp_path) as view:
        assert view == path


def test_what_has_no_size_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for strange in (pipe, Path("/dev/zero"), Path("/dev/null"), tmp_path):
        refused = pytest.raises(UsageError, match="neither a file nor a block device")
        with refused, raw_view(strange, tmp_path):
            pass
    (tmp_path / "file").touch()
    with pytest.raises(NotFoundError, match="Not a directory"), raw_view(tmp_path / "file" / "x"):
        pass


@requires("qemu-img")
def test_a_damaged_qcow2_file_is_told_of_in_one_line(tmp_path: Path) -> None:
    image = qcow2(tmp_path)
    os.truncate(image, image.stat().st_size // 2)
    with pytest.raises(DiskImageInvalid) as raised, raw_view(image, tmp_path):
        pass
    assert len(str(raised.value).splitlines()) == 1


@requires("qemu-img")
@pytest.mark.parametrize("options", [(), ("-c",)])
def test_a_qcow2_file_has_a_view_as_long_as_it_is_used(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    scratch = tmp_path / "scratch"
    with raw_view(qcow2(tmp_path, *options), scratch) as view:
        assert view.read_bytes() == CONTENT
        assert view.stat().st_blocks * 512 < len(CONTENT)
    assert not list(scratch.iterdir())


@requires("qemu-img")
@pytest.mark.parametrize(
    "option",
    [("-b", "/etc/passwd", "-F", "raw"), ("-o", "data_file=data,data_file_raw=on")],
    ids=["backing file", "data file"],
)
def test_a_qcow2_file_that_leads_to_another_is_refused(
    tmp_path: Path, option: tuple[str, ...]
) -> None:
    image = tmp_path / "image"
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", *option, str(image), "1M"]
    subprocess.run(argv, check=True, cwd=tmp_path)
    with pytest.raises(DiskImageInvalid, match="only a part of a disk"), raw_view(image, tmp_path):
        pass


@requires("qemu-img")
def test_a_damaged_qcow2_file_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    image = qcow2(tmp_path)
    image.write_bytes(image.read_bytes()[:1000])
    scratch = tmp_path / "scratch"
    with pytest.raises(DiskImageInvalid, match="as qcow2"), raw_view(image, scratch):
        pass
    assert not list(scratch.iterdir())


def test_a_header_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"QFI\xfb\0\0")
    with pytest.raises(DiskImageInvalid, match="cut short"), raw_view(image, tmp_path):
        pass


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError), raw_view(tmp_path / "nothing", tmp_path):
        pass


def archive(kind: str) -> bytes:
    """An archive with the disk image in it."""
    made = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(made, "w") as zipped:
            zipped.writestr("disk.raw", CONTENT)
        return made.getvalue()
    with tarfile.open(fileobj=made, mode="w") as tarred:
        about = tarfile.TarInfo("disk.raw")
        about.size = len(CONTENT)
        tarred.addfile(about, io.BytesIO(CONTENT))
    return made.getvalue()


NO_DISKS = {
    "zip": (archive("zip"), "a zip archive", "unzip"),
    "tar": (archive("tar"), "a tar archive", "tar -xf"),
    "tar.xz": (lzma.compress(archive("tar")), "a tar archive", "tar -xf"),
    "html": (b"\n<!DOCTYPE html><html><h1>404</h1></html>", "an HTML page", "fetch"),
    "html without doctype": (b"<!-- x -->\n<HTML lang=en>", "an HTML page", "fetch"),
    "json": (b'{"message": "not found"}', "a JSON document", "fetch"),
    "vhd of fixed size": (CONTENT + b"conectix".ljust(512, b"\0"), "vpc", "qemu-img convert -f"),
    "dmg": (CONTENT + b"koly".ljust(512, b"\0"), "dmg", "qemu-img convert -f dmg"),
    "xz twice": (lzma.compress(lzma.compress(CONTENT)), "compressed by xz", "xz -dc"),
}


@requires("xz")
@pytest.mark.parametrize("name", sorted(NO_DISKS))
def test_what_is_no_disk_image_is_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    content, why, fix = NO_DISKS[name]
    image = tmp_path / "image"
    image.write_bytes(content)
    with pytest.raises(UnsupportedError) as raised, raw_view(image, tmp_path):
        pass
    assert why in raised.value.why
    assert fix in raised.value.fix
    assert "--raw" in raised.value.fix
    with raw_view(image, tmp_path, as_it_is=True) as view:
        assert view == image
    assert [path.name for path in tmp_path.iterdir()] == ["image"]


@requires("xz", "gzip", "zstd", "bzip2")
def test_a_compressed_image_is_taken_as_what_it_is_of(tmp_path: Path) -> None:
    image, scratch = tmp_path / "image", tmp_path / "scratch"
    zstd = subprocess.run(["zstd", "-c"], input=CONTENT, capture_output=True, check=True).stdout
    for packed in (lzma.compress(CONTENT), gzip.compress(CONTENT), bz2.compress(CONTENT), zstd):
        image.write_bytes(packed)
        with raw_view(image, scratch) as view:
            assert view.read_bytes() == CONTENT
            assert view.stat().st_blocks * 512 < len(CONTENT)
        image.write_bytes(packed[:-20])
        with pytest.raises(DiskImageInvalid, match="cannot decompress"), raw_view(image, scratch):
            pass
        assert not list(scratch.iterdir())


@requires("qemu-img", "xz")
def test_a_compressed_qcow2_file_is_taken(tmp_path: Path) -> None:
    packed = tmp_path / "image.xz"
    packed.write_bytes(lzma.compress(qcow2(tmp_path).read_bytes()))
    with raw_view(packed, tmp_path / "scratch") as view:
        assert view.read_bytes() == CONTENT


@requires("qemu-img")
def test_a_qcow2_file_that_is_marked_as_corrupt_is_refused(tmp_path: Path) -> None:
    image = qcow2(tmp_path)
    with image.open("r+b") as file:
        file.seek(79)
        file.write(b"\x02")
    with pytest.raises(DiskImageInvalid, match="marked as corrupt") as raised, raw_view(image):
        pass
    assert "qemu-img check -r" in raised.value.fix


@requires("qemu-img")
def test_snapshots_and_bitmaps_that_stay_behind_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    image = qcow2(tmp_path)
    with raw_view(image, tmp_path):
        assert not caplog.records
    for command in (("snapshot", "-c", "before"), ("bitmap", "--add")):
        named = ["changes"] if command[0] == "bitmap" else []
        subprocess.run(["qemu-img", *command, str(image), *named], check=True)
    with raw_view(image, tmp_path) as view:
        assert view.read_bytes() == CONTENT
    assert "snapshots (1)" in caplog.text
    assert "dirty bitmaps (1)" in caplog.text


@pytest.mark.parametrize("follows", [b"text", b"\0\0\0\x03" + bytes(16) + b"\0\0\0\x40"])
def test_a_raw_file_that_begins_as_qcow2_by_chance_gets_that_reason(
    tmp_path: Path, follows: bytes
) -> None:
    image = tmp_path / "image"
    image.write_bytes((b"QFI\xfb" + follows).ljust(8192, b"x"))
    with pytest.raises(DiskImageInvalid) as raised, raw_view(image, tmp_path):
        pass
    assert "version would be" in raised.value.why or "clusters of" in raised.value.why
    assert "--raw" in raised.value.fix
    with raw_view(image, tmp_path, as_it_is=True) as view:
        assert view == image
