# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Disk images as raw files."""

import os
import struct
import subprocess
from pathlib import Path

import pytest

from images import DiskImageInvalid, raw_view
from satchel.errors import NotFoundError, UsageError
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
