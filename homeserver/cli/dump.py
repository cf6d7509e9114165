# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home dump`: what is in a file of ours."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from chunkstore import MAX_VOLUME_SIZE, DumpedPart, TableRoot, dump, told_pages
from console import json_option, show
from guestshares import record as calls
from replay import Operation, scan_segment
from replica import decode_profile, decode_working_set, directory_size
from satchel.errors import NotFoundError
from satchel.ids import ZERO_REF, OperationNumber, chunk_id
from satchel.record_file import RecordFormat, check_header, records_in
from shares.home import grants, write_log

_WORKING_SET = b"SATW"
_PROFILE = b"SATP"
_PACK = b"SATPACK"
_LOG = b"SATCHLOG"
_OPERATION = b"SATO"
_PAGE_CHANGES = b"SATX"
_DATABASE = b"SQLite f"
_SIGNATURE = b"-----BEG"

Say = Callable[[tuple[Any, ...]], str]
"""What the fields of a record say."""


@click.command("dump")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def command(file: Path, as_json: bool) -> None:
    """Show the content of FILE, for developers.

    FILE may be any file of a store, a medium, an operation log, a record of calls or a share.
    """
    try:
        head = b"" if file.is_dir() else _head(file)
    except OSError as error:
        raise NotFoundError(f"cannot read {file}", why=error.strerror or str(error)) from error
    show([asdict(part) for part in _parts(file, head)], as_json=as_json)


def _parts(file: Path, head: bytes) -> list[DumpedPart]:
    """Of a file by its first 8 bytes."""
    if head in _RECORDS:
        return list(_records(file, *_RECORDS[head]))
    if head == _DATABASE:
        return list(_share_index(file))
    if head == _LOG:
        return list(_segment(file))
    if head.startswith(_PACK):  # which begins as a profile does
        return list(dump(file))
    for begin, shown in _SHOWN.items():
        if head.startswith(begin):
            return list(shown(file.read_bytes()))
    return list(dump(file))


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


def _operation(data: bytes) -> Iterator[DumpedPart]:
    """One that is in a file by itself."""
    operation = Operation.decode(data)
    text = f"{operation.number}, {len(operation.payload)} bytes at {operation.time_ns} ns"
    yield DumpedPart(0, len(data), "operation", text)


def _page_changes(data: bytes) -> Iterator[DumpedPart]:
    for at, size, base, entries in told_pages(data):
        changed = ", ".join(f"{n} {chunk_id(ref).hex()}" for n, ref in entries.items())
        text = f"of {chunk_id(base).hex()}: {changed or 'as it is'}"
        yield DumpedPart(at, size, "page", text)


def _signature(data: bytes) -> Iterator[DumpedPart]:
    yield DumpedPart(0, len(data), "signature", data.decode("ascii", "replace").strip())


def _records(file: Path, form: RecordFormat, say: Say) -> Iterator[DumpedPart]:
    """Of a file that grows by records, as it is: nothing is cut off."""
    data = file.read_bytes()
    end = check_header(file, data, form)
    yield DumpedPart(0, end, "header", f"{form.what} of version {form.version}")
    for record in records_in(data, form):
        size = form.overhead + len(record.data)
        end = record.at + size
        text = f"{say(record.fields)}; {len(record.data)} bytes of data"
        yield DumpedPart(record.at, size, "record", text)
    if end < len(data):
        yield DumpedPart(end, len(data) - end, "garbage", "no record")


def _call(fields: tuple[Any, ...]) -> str:
    kind, operation, count, digest = fields
    if kind == calls.FINISHED:
        return f"operation {operation} is finished"
    return f"operation {operation}: call {digest.hex()}, asked {count} times before"


def _write(fields: tuple[Any, ...]) -> str:
    kind, file, block, place = fields
    if kind == write_log.OVER:
        return f"file {file}: over, {place or 'all'} blocks from {block} on"
    return f"file {file}: written, block {block} at {place}"


def _right(fields: tuple[Any, ...]) -> str:
    file, first, count, grant = fields
    blocks = f"{count} blocks" if count != grants.ALL else "all blocks"
    return f"file {file}: {blocks} from {first} on, under grant {grant}"


def _share_index(file: Path) -> Iterator[DumpedPart]:
    """The rows, of a copy: a database is not read without writing beside it."""
    with tempfile.TemporaryDirectory(prefix="satchel-dump-") as folder:
        for path in file.parent.glob(f"{file.name}*"):
            if path.name in (file.name, f"{file.name}-wal"):
                shutil.copy(path, folder)
        size = file.stat().st_size
        with closing(sqlite3.connect(Path(folder) / file.name)) as base:
            for table in ("files", "names", "reserved"):
                for row in base.execute(f"SELECT * FROM {table} ORDER BY 1"):
                    yield DumpedPart(0, size, table, ", ".join(map(str, row)))


_RECORDS: dict[bytes, tuple[RecordFormat, Say]] = {
    form.magic: (form, say)
    for form, say in ((calls.FORMAT, _call), (write_log.FORMAT, _write), (grants.FORMAT, _right))
}

_SHOWN: dict[bytes, Callable[[bytes], Iterator[DumpedPart]]] = {
    _WORKING_SET: _working_set,
    _PROFILE: _profile,
    _PAGE_CHANGES: _page_changes,
    _OPERATION: _operation,
    _SIGNATURE: _signature,
    b"{": _document,
}
