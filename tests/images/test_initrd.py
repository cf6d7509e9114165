# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The initial RAM disk: its archive, and the order in which modules are loaded."""

import io
import lzma
import subprocess
import tarfile
from pathlib import Path

import pytest

from images.initrd import initial_ram_disk, kernel_files
from satchel.errors import UnsupportedError
from tests.needs import requires

MODULES = {
    "virtio.ko": b"",
    "virtio_ring.ko": b"virtio",
    "virtio-pci.ko": b"virtio_ring,virtio",
    "virtio_blk.ko": b"virtio_ring",
    "virtio_console.ko": b"virtio",
    "unwanted.ko": b"",
}


def packages(path: Path, lacking: str = "", *, packed: bool = False) -> Path:
    files = {"./boot/vmlinuz-6.1": b"kernel", "./bin/busybox": b"busybox"}
    for name, depends in MODULES.items():
        module = b"\x7fELF\0license=GPL\0depends=" + depends + b"\0name=x\0"
        place = f"./lib/modules/6.1/kernel/{name}"
        if packed:
            files[place + ".xz"] = lzma.compress(module)
        else:
            files[place] = module
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            if not lacking or lacking not in name:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


@requires("busybox")
def test_busybox_reads_the_archive(tmp_path: Path) -> None:
    files = kernel_files(packages(tmp_path / "tar"))
    assert files.vmlinuz == b"kernel"
    names = subprocess.run(
        ["busybox", "cpio", "-t"], input=files.initrd, check=True, capture_output=True
    ).stdout.decode()
    assert {"init", "dev/console", "bin/busybox", "modules/virtio_pci.ko"} <= set(names.split())
    assert "unwanted" not in names


def test_modules_that_are_compressed_are_not_in_the_archive(tmp_path: Path) -> None:
    """As in Debian 13. BusyBox's insmod does not know what that is."""
    plain = kernel_files(packages(tmp_path / "tar"))
    assert kernel_files(packages(tmp_path / "packed", packed=True)) == plain


def test_modules_that_are_part_of_the_kernel_are_not_in_the_archive(tmp_path: Path) -> None:
    """As virtio_pci is in Debian 13."""
    path = packages(tmp_path / "tar", lacking="virtio_ring")
    builtin = b"kernel/drivers/virtio/virtio_ring.ko\nkernel/drivers/virtio/virtio-pci.ko\n"
    with tarfile.open(path, "a") as tar:
        member = tarfile.TarInfo("./usr/lib/modules/6.12/modules.builtin")
        member.size = len(builtin)
        tar.addfile(member, io.BytesIO(builtin))
    initrd = kernel_files(path).initrd
    assert b"virtio_blk.ko" in initrd
    assert b"virtio_pci.ko" not in initrd


def test_a_module_comes_after_what_it_needs(tmp_path: Path) -> None:
    initrd = kernel_files(packages(tmp_path / "tar")).initrd
    at = initrd.index(b"modules/order\0")
    order = initrd[at : at + 200].decode().split("\0")
    names = next(text for text in order if "\n" in text).split()
    assert names.index("virtio.ko") < names.index("virtio_ring.ko") < names.index("virtio_pci.ko")


def test_the_same_files_give_the_same_archive() -> None:
    files = [("init", 0o100755, b"#!/bin/sh")]
    archive = initial_ram_disk(files)
    assert archive == initial_ram_disk(files)
    assert len(archive) % 4 == 0


@pytest.mark.parametrize("lacking", ["vmlinuz", "busybox", "virtio_blk", "virtio_ring"])
def test_a_package_without_what_a_boot_needs_is_named(tmp_path: Path, lacking: str) -> None:
    with pytest.raises(UnsupportedError, match=lacking):
        kernel_files(packages(tmp_path / "tar", lacking))
