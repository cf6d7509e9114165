# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home dump`: what is in a file of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from chunkstore import MAX_VOLUME_SIZE, DumpedPart, TableRoot, dump
from console import json_option, show
from replay import scan_segment
from replica import decode_profile, decode_working_set, directory_size
from satchel.errors import NotFoundError
from satchel.ids import ZERO_REF, OperationNumber

_WORKING_SET = b"SATW"
_PROFILE = b"SATP"
_PACK = b"SATPACK"
_LOG = b"SATCHLOG"


@click.command("dump")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def command(file: Path, as_json: bool) -> None:
    """Show what is in FILE, for developers.

    A pack, the index of a store or of a pack, a medium's commit, a block map, a table page, a
    working set, an access profile, a segment of an operation log, a manifest or a description.
    """
    try:
        head = b"" if file.is_dir() else _head(file)
    except OSError as error:
        raise NotFoundError(f"cannot read {file}", why=error.strerror or str(error)) from error
    if head.startswith(_WORKING_SET):
        parts = list(_working_set(file.read_bytes()))
    elif head.startswith(_PROFILE) and not head.startswith(_PACK):
        parts = list(_profile(file.read_bytes()))
    elif head == _LOG:
        parts = list(_segment(file))
    elif head[:1] == b"{":
        parts = list(_document(file.read_bytes()))
    else:
        parts = list(dump(file))
    show([asdict(part) for part in parts], as_json=as_json)


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(8)


class _AnyVolume(dict[str, TableRoot]):
    """Whatever volumes a working set names are there, and large."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> TableRoot:
        return TableRoot(ref=ZERO_REF, size=MAX_VOLUME_SIZE)


def _working_set(data: bytes) -> Iterator[DumpedPart]:
    size = directory_size(data)
    yield DumpedPart(0, size, "directory", f"working set of {len(data)} bytes")
    for frame in decode_working_set(data[:size], len(data), _AnyVolume()):
        content = data[frame.offset : frame.offset + frame.length]
        runs = ", ".join(f"{run.volume} {run.first}+{run.count}" for run in frame.runs)
        yield DumpedPart(
            frame.offset, frame.length, "frame", f"{len(frame.expand(content))} bytes: {runs}"
        )


def _profile(data: bytes) -> Iterator[DumpedPart]:
    """One part for each phase, with the blocks that are trusted there."""
    profile = decode_profile(data, _AnyVolume())
    yield DumpedPart(0, len(data), "profile", f"{len(profile.runs)} runs, week {profile.week}")
    for phase in profile.phases:
        runs = profile.order(phases=(phase,))
        blocks = ", ".join(f"{run.volume} {run.first}+{run.count}" for run in runs)
        yield DumpedPart(0, len(data), phase, blocks)


def _segment(path: Path) -> Iterator[DumpedPart]:
    segment, fault = scan_segment(path)
    for number in range(segment.first, segment.last + 1):
        offset, size = segment.extent(OperationNumber(number))
        yield DumpedPart(offset, size, "operation", str(number))
    if fault:
        yield DumpedPart(fault.offset, fault.size, "garbage", fault.why)


def _document(data: bytes) -> Iterator[DumpedPart]:
    """A manifest, or another small JSON file, one part for each member."""
    try:
        members = json.loads(data)
    except (ValueError, RecursionError) as error:
        yield DumpedPart(0, len(data), "garbage", str(error))
        return
    for name, value in members.items():
        yield DumpedPart(0, len(data), name, value if isinstance(value, str) else json.dumps(value))
