# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A disk image as a raw file, whether it is raw or qcow2.

A qcow2 file may name other files of the host as its backing or data file and so carry them off.
Such a file is refused. So is every other format that is known: most of them may name other files
too, and as a raw disk none of them would be what its owner means.
"""

from __future__ import annotations

import contextlib
import shlex
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from satchel import paths
from satchel.errors import (
    CapacityError,
    IntegrityError,
    NotFoundError,
    UnsupportedError,
    UsageError,
)

_QCOW2_MAGIC = b"QFI\xfb"
_OTHERS = (
    (b"KDMV", 0, "vmdk"),
    (b"COWD", 0, "vmdk"),
    (b"# Disk DescriptorFile", 0, "vmdk"),
    (b"\x7f\x10\xda\xbe", 64, "vdi"),
    (b"vhdxfile", 0, "vhdx"),
    (b"conectix", 0, "vpc"),
    (b"QED\0", 0, "qed"),
    (b"WithoutFreeSpace", 0, "parallels"),
    (b"WithouFreSpacExt", 0, "parallels"),
)
"""What files of other formats have, where, and what qemu-img calls the format."""

_OLD_QCOW = 1
_HEADER = struct.Struct(">4sIQ")
_SIZE_OFFSET = 24
_SIZE_LIMIT = 1 << 48
_FEATURES_OFFSET = 72
_EXTERNAL_DATA_FILE = 1 << 2
_HEAD_BYTES = 112
_LEAKS_ONLY = 3
_TAIL = 500


Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
"""Runs a program to its end, with its output."""


class DiskImageInvalid(IntegrityError):
    """The disk image cannot be read, or refers to other files."""


@contextlib.contextmanager
def raw_view(image: Path, scratch: Path | None = None, *, as_it_is: bool = False) -> Iterator[Path]:
    """A raw file with the content of `image`: the same file, or a sparse copy of a qcow2 one.

    scratch: where a copy is made; by default the cache folder. It is gone afterwards. as_it_is: it
    is raw, whatever it begins with. Raises NotFoundError, UsageError for what is neither a file nor
    a block device, DiskImageInvalid, UnsupportedError for other formats and without qemu-img,
    CapacityError.
    """
    _refuse_what_has_no_size(image)
    try:
        with image.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError as error:
        raise NotFoundError(f"no disk image {image}", why=error.strerror or "") from error
    if as_it_is or not _is_qcow2(image, head):
        yield image
        return
    scratch = scratch or paths.cache_dir()
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="raw-", dir=scratch) as folder:
        raw = Path(folder) / "raw"
        _convert(image, raw, _beside)
        yield raw


def virtual_size(image: Path) -> int | None:
    """Bytes of the disk that a qcow2 file is; None of a raw one. Raises as `raw_view` does."""
    _refuse_what_has_no_size(image)
    with image.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if not _is_qcow2(image, head):
        return None
    size = int.from_bytes(head[_SIZE_OFFSET : _SIZE_OFFSET + 8], "big")
    if not 0 < size <= _SIZE_LIMIT:
        raise DiskImageInvalid(f"cannot read {image}", why=f"its qcow2 header says {size} bytes")
    return size


def unpack(image: Path, raw: Path, run: Run) -> None:
    """Write the content of a qcow2 file into `raw`, which is there, has its size, and is a hole.

    run: runs qemu-img. Raises as `raw_view` does.
    """
    _convert(image, raw, run, ("-n", "--target-is-zero"))


def _is_qcow2(image: Path, head: bytes) -> bool:
    """False: raw. Others are refused."""
    _refuse_other_formats(image, head)
    if not head.startswith(_QCOW2_MAGIC):
        return False
    _refuse_other_files(image, head)
    return True


def _refuse_what_has_no_size(image: Path) -> None:
    """A pipe would be waited for, and a character device be taken for an empty disk."""
    try:
        mode = image.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"no disk image {image}", why=error.strerror or "") from error
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise UsageError(
            f"cannot read {image} as a disk image",
            why="it is neither a file nor a block device",
            fix="name one; write the data of a pipe into a file first",
        )


def _refuse_other_formats(image: Path, head: bytes) -> None:
    for magic, offset, name in _OTHERS:
        if head.startswith(magic, offset):
            raise _other_format(image, name)


def _other_format(image: Path, name: str) -> UnsupportedError:
    return UnsupportedError(
        f"cannot read {image} as a disk image",
        why=f"it is {name}, and neither raw nor qcow2",
        fix=f"convert it: qemu-img convert -f {name} -O qcow2 {shlex.quote(str(image))} DISK.qcow2",
    )


def _refuse_other_files(image: Path, head: bytes) -> None:
    if len(head) < _HEADER.size:
        raise DiskImageInvalid(f"cannot read {image}", why="its qcow2 header is cut short")
    _, version, backing = _HEADER.unpack_from(head)
    if version == _OLD_QCOW:
        raise _other_format(image, "qcow")
    features = 0
    if version >= 3 and len(head) >= _FEATURES_OFFSET + 8:
        (features,) = struct.unpack_from(">Q", head, _FEATURES_OFFSET)
    if backing or features & _EXTERNAL_DATA_FILE:
        raise DiskImageInvalid(
            f"{image} is only a part of a disk",
            why="it names a backing file or a data file",
            fix=f"make it whole: qemu-img convert -O qcow2 {shlex.quote(str(image))} WHOLE.qcow2",
        )


def _convert(image: Path, raw: Path, run: Run, options: Sequence[str] = ()) -> None:
    """A file that is cut short would convert without an error, so it is checked before."""
    checked = _qemu_img(image, run, "check", "-q", "-f", "qcow2", str(image.resolve()))
    if checked.returncode not in (0, _LEAKS_ONLY):
        why = _first_line(checked.stderr or checked.stdout)
        raise DiskImageInvalid(f"cannot read {image} as qcow2", why=why)
    kinds = ("-f", "qcow2", "-O", "raw", "-S", "4k")
    made = _qemu_img(image, run, "convert", *kinds, *options, str(image.resolve()), str(raw))
    if made.returncode == 0:
        return
    why = made.stderr.strip()[-_TAIL:]
    if "No space left" in why or "File too large" in why:
        raise CapacityError(f"no space for the content of {image} in {raw.parent}", why=why)
    raise DiskImageInvalid(f"cannot read {image} as qcow2", why=why)


def _first_line(said: str) -> str:
    """A damaged image has qemu-img complain of every cluster."""
    lines = said.strip().splitlines() or [""]
    more = f" (and {len(lines) - 1} lines more)" if len(lines) > 1 else ""
    return lines[0][:_TAIL] + more


def _beside(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """On this host as it is."""
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _qemu_img(image: Path, run: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return run(["qemu-img", *arguments])
    except FileNotFoundError as error:
        why = "it is qcow2 and there is no qemu-img"
        raise UnsupportedError(f"cannot read {image}", why=why, fix="install qemu-utils") from error
