# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a raw disk says of itself: its partitions, what could start it, and kinds of file systems.

It may be a stranger's: every number is checked against the disk's size, and no file system is read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

SECTOR = 512
PARTITION_LIMIT = 128

_MBR_SIGNATURE = b"\x55\xaa"
_CODE_BYTES = 440
_MBR_ENTRY = struct.Struct("<B3xB3xII")
_MBR_AT, _MBR_COUNT = 446, 4
_PROTECTIVE, _ESP_MBR = 0xEE, 0xEF

_GPT_HEADER = struct.Struct("<8s64xQII")
"""Signature, sector of the entries, their number, the bytes of one. UEFI 2.10, 5.3.2."""
_GPT_SIGNATURE = b"EFI PART"
_GPT_ENTRY = struct.Struct("<16s16sQQ")
_GPT_ENTRY_LIMIT = 1024
_ESP = bytes.fromhex("28732ac11ff8d211ba4b00a0c93ec93b")

_LARGE_SECTOR = 4096
"""A sector of some SSDs and servers' disks. No machine here has such a disk."""

_FILE_SYSTEMS = (
    (0x438, b"\x53\xef", "ext"),
    (0, b"XFSB", "xfs"),
    (0x10040, b"_BHRfS_M", "btrfs"),
    (0x218, b"LVM2 001", "lvm"),
    (0, b"LUKS\xba\xbe", "luks"),
)
"""Where a partition says what is on it, and what we call that."""

_WHOLE_CONTENTS = (
    (0, b"LUKS\xba\xbe", "it is an encrypted volume (LUKS) without a partition table"),
    (0x218, b"LVM2 001", "it is a physical volume of LVM without a partition table"),
    (0x8001, b"CD001", "it is the image of a CD or DVD (ISO 9660), such as an installer's"),
    (3, b"NTFS    ", "it is one file system (NTFS) without a partition table"),
    (3, b"EXFAT   ", "it is one file system (exFAT) without a partition table"),
    (54, b"FAT1", "it is one file system (FAT) without a partition table"),
    (82, b"FAT32   ", "it is one file system (FAT32) without a partition table"),
    (0, b"hsqs", "it is one file system (squashfs) without a partition table"),
    (4086, b"SWAPSPACE2", "it is swap space"),
    (0x200, b"LABELONE", "it is a physical volume of LVM without a partition table"),
    (0x1000, b"\xfc\x4e\x2b\xa9", "it is a part of a RAID (md), and not its content"),
    (0, b"XFSB", "it is one file system (xfs) without a partition table"),
    (0x10040, b"_BHRfS_M", "it is one file system (btrfs) without a partition table"),
    (0x438, b"\x53\xef", "it is one file system (ext) without a partition table"),
    (512, b"PM\0\0", "its partition table is Apple's (APM)"),
)
"""The signatures of disks without partitions, by offset, with the reason for a refusal."""


@dataclass(frozen=True)
class Partition:
    """start, size: bytes. content: ext, xfs, btrfs, lvm, luks, or empty. system: it is the one from
    which UEFI starts."""

    start: int
    size: int
    content: str
    system: bool


@dataclass(frozen=True)
class DiskLayout:
    """bios: whether its first sector has code, which may start something. lack: why it has no
    partitions; empty if it has some."""

    bios: bool
    partitions: tuple[Partition, ...]
    lack: str = ""

    @property
    def uefi(self) -> bool:
        """Whether there is something that UEFI looks for."""
        return any(partition.system for partition in self.partitions)


def read_layout(disk: BinaryIO) -> DiskLayout:
    """Of that disk. One without a partition table has none, whatever it holds."""
    size = disk.seek(0, os.SEEK_END)
    first = _at(disk, 0, SECTOR)
    if len(first) < SECTOR or first[510:] != _MBR_SIGNATURE:
        return DiskLayout(False, (), _lack(disk, _lack_without_mbr(disk)))
    rows = [_MBR_ENTRY.unpack_from(first, _MBR_AT + 16 * n) for n in range(_MBR_COUNT)]
    protective = any(kind == _PROTECTIVE for _, kind, _, _ in rows)
    if protective:
        found = list(_gpt(disk))
    else:
        found = [(start, count, kind == _ESP_MBR) for _, kind, start, count in rows if kind]
    partitions = tuple(
        Partition(start * SECTOR, count * SECTOR, _content(disk, start * SECTOR), system)
        for start, count, system in found
        if start > 0 and count > 0 and (start + count) * SECTOR <= size
    )
    lack = ""
    if not partitions:
        table = "its partition table (GPT) is damaged or empty" if protective else ""
        ends = "its partitions reach beyond its end, so the file is cut short" if found else ""
        lack = _lack(disk, ends or table or "its partition table (MBR) is empty")
    return DiskLayout(any(first[:_CODE_BYTES]), partitions, lack)


def _lack(disk: BinaryIO, otherwise: str) -> str:
    """Why a disk has no partitions; `otherwise` where nothing on it tells."""
    if _at(disk, _LARGE_SECTOR, len(_GPT_SIGNATURE)) == _GPT_SIGNATURE:
        return f"its partition table (GPT) counts in sectors of {_LARGE_SECTOR} bytes, not {SECTOR}"
    for offset, magic, lack in _WHOLE_CONTENTS:
        if _at(disk, offset, len(magic)) == magic:
            return lack
    return otherwise


def _lack_without_mbr(disk: BinaryIO) -> str:
    if _at(disk, SECTOR, len(_GPT_SIGNATURE)) == _GPT_SIGNATURE:
        return "its first sector does not say that it has a partition table (GPT)"
    if not any(_at(disk, 0, 1 << 20)):
        return "it begins with zeros only, so it is empty or no disk"
    return "it has no partitions"


def _gpt(disk: BinaryIO) -> Iterator[tuple[int, int, bool]]:
    header = _at(disk, SECTOR, _GPT_HEADER.size)
    if len(header) < _GPT_HEADER.size:
        return
    signature, sector, count, length = _GPT_HEADER.unpack(header)
    if signature != _GPT_SIGNATURE or not _GPT_ENTRY.size <= length <= _GPT_ENTRY_LIMIT:
        return
    for number in range(min(count, PARTITION_LIMIT)):
        entry = _at(disk, sector * SECTOR + number * length, _GPT_ENTRY.size)
        if len(entry) < _GPT_ENTRY.size:
            return
        kind, _, start, last = _GPT_ENTRY.unpack(entry)
        if any(kind):
            yield start, last + 1 - start, kind == _ESP


def _content(disk: BinaryIO, start: int) -> str:
    for offset, magic, name in _FILE_SYSTEMS:
        if _at(disk, start + offset, len(magic)) == magic:
            return name
    return ""


def _at(disk: BinaryIO, offset: int, count: int) -> bytes:
    """Fewer bytes where the disk ends."""
    if offset >= 1 << 63:
        return b""
    disk.seek(offset)
    return disk.read(count)
