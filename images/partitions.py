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
_GPT_ENTRY = struct.Struct("<16s16sQQ")
_GPT_ENTRY_LIMIT = 1024
_ESP = bytes.fromhex("28732ac11ff8d211ba4b00a0c93ec93b")

_FILE_SYSTEMS = (
    (0x438, b"\x53\xef", "ext"),
    (0, b"XFSB", "xfs"),
    (0x10040, b"_BHRfS_M", "btrfs"),
    (0x218, b"LVM2 001", "lvm"),
    (0, b"LUKS\xba\xbe", "luks"),
)
"""Where a partition says what is on it, and what we call that."""


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
    """bios: whether its first sector has code. Nobody can tell whether that starts anything."""

    bios: bool
    partitions: tuple[Partition, ...]

    @property
    def uefi(self) -> bool:
        """Whether there is something that UEFI looks for."""
        return any(partition.system for partition in self.partitions)


def read_layout(disk: BinaryIO) -> DiskLayout:
    """Of that disk. One without a partition table has none, whatever it holds."""
    size = disk.seek(0, os.SEEK_END)
    first = _at(disk, 0, SECTOR)
    if len(first) < SECTOR or first[510:] != _MBR_SIGNATURE:
        return DiskLayout(False, ())
    rows = [_MBR_ENTRY.unpack_from(first, _MBR_AT + 16 * n) for n in range(_MBR_COUNT)]
    if any(kind == _PROTECTIVE for _, kind, _, _ in rows):
        found = _gpt(disk)
    else:
        found = ((start, count, kind == _ESP_MBR) for _, kind, start, count in rows if kind)
    partitions = tuple(
        Partition(start * SECTOR, count * SECTOR, _content(disk, start * SECTOR), system)
        for start, count, system in found
        if start > 0 and count > 0 and (start + count) * SECTOR <= size
    )
    return DiskLayout(any(first[:_CODE_BYTES]), partitions)


def _gpt(disk: BinaryIO) -> Iterator[tuple[int, int, bool]]:
    header = _at(disk, SECTOR, _GPT_HEADER.size)
    if len(header) < _GPT_HEADER.size:
        return
    signature, sector, count, length = _GPT_HEADER.unpack(header)
    if signature != b"EFI PART" or not _GPT_ENTRY.size <= length <= _GPT_ENTRY_LIMIT:
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
