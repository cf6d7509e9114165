# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The kind of a file by its first and last bytes, for files that people mistake for disk images.

A raw disk has no signature of its own, so every file could be one. A file that has the signature of
another kind is almost never meant as a raw disk.
"""

from __future__ import annotations

import enum
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

HEAD_BYTES = 4096
TAIL_BYTES = 512
"""How much of a file's beginning and end `kind_of` needs."""


class Remedy(enum.Enum):
    """How a person gets a disk image out of a file."""

    CONVERT = "qemu-img convert"
    UNPACK = "a program that unpacks it"
    DECOMPRESS = "a program that decompresses it"
    FETCH = "another download"


@dataclass(frozen=True)
class FileKind:
    """A kind of file other than disk images.

    name: as qemu-img calls it if the remedy is CONVERT. program: what decompresses or unpacks it
    """

    name: str
    remedy: Remedy
    program: tuple[str, ...] = ()

    def fix(self, file: Path) -> str:
        """Say how a person gets a disk image out of `file`, which is of this kind."""
        path = shlex.quote(str(file))
        if self.remedy is Remedy.CONVERT:
            return f"convert it: qemu-img convert -f {self.name} -O qcow2 {path} DISK.qcow2"
        if self.remedy is Remedy.DECOMPRESS:
            return f"decompress it: {shlex.join(self.program)} < {path} > DISK"
        if self.remedy is Remedy.UNPACK:
            return f"unpack it, and name the disk image in it: {shlex.join(self.program)} {path}"
        return "look what it is (`file` tells), and fetch the disk image again"


def _decompressed(name: str, program: str) -> FileKind:
    return FileKind(name, Remedy.DECOMPRESS, (program, "-dc"))


_TAR = FileKind("a tar archive", Remedy.UNPACK, ("tar", "-xf"))
_HTML_BEGINS = re.compile(
    rb"(\xef\xbb\xbf)?\s*(<!--((?!-->).)*-->\s*)*<(!doctype\s+html|html|head)\b", re.I | re.S
)

_AT_OFFSETS = (
    (b"KDMV", 0, FileKind("vmdk", Remedy.CONVERT)),
    (b"COWD", 0, FileKind("vmdk", Remedy.CONVERT)),
    (b"# Disk DescriptorFile", 0, FileKind("vmdk", Remedy.CONVERT)),
    (b"\x7f\x10\xda\xbe", 64, FileKind("vdi", Remedy.CONVERT)),
    (b"vhdxfile", 0, FileKind("vhdx", Remedy.CONVERT)),
    (b"conectix", 0, FileKind("vpc", Remedy.CONVERT)),
    (b"QED\0", 0, FileKind("qed", Remedy.CONVERT)),
    (b"WithoutFreeSpace", 0, FileKind("parallels", Remedy.CONVERT)),
    (b"WithouFreSpacExt", 0, FileKind("parallels", Remedy.CONVERT)),
    (b"Bochs Virtual HD Image", 0, FileKind("bochs", Remedy.CONVERT)),
    (b"\xfd7zXZ\0", 0, _decompressed("compressed by xz", "xz")),
    (b"\x28\xb5\x2f\xfd", 0, _decompressed("compressed by zstd", "zstd")),
    (b"LZIP", 0, _decompressed("compressed by lzip", "lzip")),
    (b"\x04\x22\x4d\x18", 0, _decompressed("compressed by lz4", "lz4")),
    (b"\x89LZO\0\r\n\x1a\n", 0, _decompressed("compressed by lzop", "lzop")),
    (b"ustar", 257, _TAR),
    (b"PK\x03\x04", 0, FileKind("a zip archive", Remedy.UNPACK, ("unzip",))),
    (b"PK\x05\x06", 0, FileKind("an empty zip archive", Remedy.FETCH)),
    (b"7z\xbc\xaf\x27\x1c", 0, FileKind("a 7-Zip archive", Remedy.UNPACK, ("7z", "x"))),
    (b"Rar!\x1a\x07", 0, FileKind("a RAR archive", Remedy.UNPACK, ("unrar", "x"))),
    (b"MSWIM\0\0\0", 0, FileKind("a WIM archive", Remedy.UNPACK, ("wimlib-imagex", "extract"))),
    (b"!<arch>\n", 0, FileKind("a Debian package or an archive of ar", Remedy.FETCH)),
    (b"\xed\xab\xee\xdb", 0, FileKind("an RPM package", Remedy.FETCH)),
    (b"070701", 0, FileKind("a cpio archive, such as an initrd", Remedy.FETCH)),
    (b"\x3a\xff\x26\xed", 0, FileKind("a sparse image of Android", Remedy.UNPACK, ("simg2img",))),
    (b"partclone-image", 0, FileKind("an image of partclone", Remedy.FETCH)),
    (b"EVF\t\r\n\xff\0", 0, FileKind("an image of EnCase", Remedy.UNPACK, ("ewfexport",))),
    (b"\x7fELF", 0, FileKind("a program (ELF)", Remedy.FETCH)),
    (b"%PDF-", 0, FileKind("a PDF document", Remedy.FETCH)),
    (b"\x89PNG\r\n\x1a\n", 0, FileKind("a picture (PNG)", Remedy.FETCH)),
    (b"\xff\xd8\xff\xe0", 0, FileKind("a picture (JPEG)", Remedy.FETCH)),
    (b"SQLite format 3\0", 0, FileKind("an SQLite database", Remedy.FETCH)),
    (b"version https://git-lfs", 0, FileKind("a pointer of Git LFS", Remedy.FETCH)),
    (b"-----BEGIN ", 0, FileKind("a key, a certificate or a signature", Remedy.FETCH)),
)

_PATTERNS = (
    (re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"), _decompressed("compressed by gzip", "gzip")),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), _decompressed("compressed by bzip2", "bzip2")),
    (_HTML_BEGINS, FileKind("an HTML page", Remedy.FETCH)),
    (re.compile(rb"(\xef\xbb\xbf)?\s*<\?xml\s"), FileKind("an XML document", Remedy.FETCH)),
    (re.compile(rb'\s*\{\s*"'), FileKind("a JSON document", Remedy.FETCH)),
)  # fmt: skip

_AT_END = (
    (b"conectix", FileKind("vpc", Remedy.CONVERT)),
    (b"koly", FileKind("dmg", Remedy.CONVERT)),
)
"""Signatures of the last TAIL_BYTES: a VHD of fixed size and a DMG begin with their content."""


def kind_of(head: bytes, tail: bytes = b"") -> FileKind | None:
    """Return the kind of a file; None if it may be a disk image.

    head: its first HEAD_BYTES. tail: its last TAIL_BYTES, or empty
    """
    for magic, offset, kind in _AT_OFFSETS:
        if head.startswith(magic, offset):
            return kind
    for pattern, kind in _PATTERNS:
        if pattern.match(head):
            return kind
    return next((kind for magic, kind in _AT_END if tail.startswith(magic)), None)
