# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Layers of a container's image, one upon the other, into a tree.

A layer is a tar archive of what it adds and changes; a member `.wh.NAME` takes NAME of the layers
below away, and `.wh..wh..opq` all that is in its folder (OCI image specification, layer.md). Who
made the archive may be a stranger, so nothing of it is unpacked by its name: contents become
numbered files, links are followed within the tree alone, and limits hold before anything is read.

A layer is refused for a name with `..`, a name or path that is too long for Linux, a hard link to a
missing file, and a device node or pipe outside the folders that the guest mounts over. So is an
archive that is larger than the guest's disk. Zeros take no room on that disk, so an archive may
have ZEROS times as many bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from images.tree import Entry, Kind, Tree, attributes, resolved
from satchel.errors import CapacityError, IntegrityError, UsageError

ENTRIES_LIMIT = 2_000_000
"""Members of all layers of one image."""

_PIECE = 1 << 20
_HEADER_LIMIT = 1 << 22
"""Of a header with its extensions: extended attributes have 64 KiB at most."""
ZEROS = 16
"""Bytes that an archive may hold, zeros included, for each byte of the disk. A `lastlog` has GiB of
them if a user of the image has a large number."""

_SIZE_LIMIT = (1 << 44) - (1 << 12)
"""Bytes of a file on the guest's disk, holes included."""
_NAME_LIMIT, _PATH_LIMIT = 255, 4095
_WHITEOUT, _OPAQUE, _RESERVED = ".wh.", ".wh..wh..opq", ".wh..wh."
_ID_LIMIT = (1 << 32) - 2
_LATEST = (1 << 31) - 1
_BROKEN = (tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError, OSError)


class LayerInvalid(IntegrityError):
    """A layer is damaged or hostile."""


class Layers:
    """What the layers that were applied so far come to. One thread."""

    def __init__(self, scratch: Path, size: int, mounted: tuple[str, ...]) -> None:
        """scratch: gets the contents. size: bytes that all layers may hold altogether. mounted:
        folders that the guest mounts something over; what is in them stays out."""
        self._all: Tree = {}
        self._children: dict[str, set[str]] = {}
        self._scratch, self._left, self._mounted = scratch, size, mounted
        self._read_left = size * ZEROS
        self._size, self._numbers = size, itertools.count()

    @property
    def tree(self) -> Tree:
        """The entries that the guest gets."""
        return {path: entry for path, entry in self._all.items() if not self._stays_out(path)}

    def _stays_out(self, path: str) -> bool:
        return any(path == folder or path.startswith(f"{folder}/") for folder in self._mounted)

    def apply(self, stream: IO[bytes], name: str) -> None:
        """Put the layer whose unpacked archive `stream` reads on top. name: for errors.

        Raises LayerInvalid, CapacityError. The tree is of no use after an error.
        """
        reader = _Forward(stream)
        own: set[str] = set()
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", reader), mode="r:") as archive:
                for member in archive:
                    cast(Any, archive).members.clear()  # a list of all of them is of no use here
                    if next(self._numbers) >= ENTRIES_LIMIT:
                        raise _hostile("there are too many files", name)
                    self._count(member)
                    self._take(member, reader, own)
        except (_LayerFault, UsageError) as error:
            raise _hostile(str(error), name) from None
        except _BROKEN as error:
            raise LayerInvalid(f"cannot read layer {name}", why=str(error)[:200]) from error

    def _count(self, member: tarfile.TarInfo) -> None:
        self._read_left -= 0 if member.issparse() else member.size
        if self._read_left < 0:
            raise self._full()
        if member.size > _SIZE_LIMIT:
            raise _LayerFault(f"{member.name[:100]!r} is larger than files can be")

    def _full(self) -> CapacityError:
        return CapacityError(
            f"the container's image does not fit into {self._size >> 20} MiB",
            fix="give the recipe a larger disk-mib",
        )

    def _take(self, member: tarfile.TarInfo, reader: _Forward, own: set[str]) -> None:
        parts = _parts(member.name)
        if not parts:
            return
        path = self._resolved(parts)
        folder, _, base = path.rpartition("/")
        if base == _OPAQUE:
            for child in sorted(self._children.get(folder, ())):
                self._remove_below(f"{folder}/{child}", own)
        elif any(part.startswith(_RESERVED) for part in parts):
            return  # a storage driver of Docker keeps this for itself
        elif base.startswith(_WHITEOUT):
            self._remove_below(f"{folder}/{base.removeprefix(_WHITEOUT)}", own)
        elif (entry := self._entry(member, path, reader)) is not None:
            self._add(path, entry)
            own.add(path)

    def _entry(self, member: tarfile.TarInfo, path: str, reader: _Forward) -> Entry | None:
        """None for a device or a pipe that stays out."""
        if member.isdir():
            return _entry(member, Kind.FOLDER)
        if member.issym():
            return _link(member)
        if member.islnk():
            original = self._all.get(self._resolved(_parts(member.linkname)))
            if original is None or original.kind is Kind.FOLDER:
                raise _LayerFault(
                    f"a hard link to {member.linkname[:100]!r}, which is not a file there"
                )
            return original
        if not (member.isreg() or member.issparse()):
            if self._stays_out(path):
                return None
            raise _LayerFault(f"{member.name[:100]!r} is a device, a pipe or no file that is known")
        content = self._scratch / str(next(self._numbers))
        digest = self._copy(reader, member, content)
        return _entry(member, Kind.FILE, content, digest)

    def _copy(self, reader: _Forward, member: tarfile.TarInfo, content: Path) -> bytes:
        """Write a member's content, with holes for zeros, and return the digest of its data."""
        digest = hashlib.sha256()
        reader.seek(member.offset_data)
        holes = cast("list[tuple[int, int]] | None", getattr(member, "sparse", None))
        with content.open("xb") as copy:
            for offset, length in [(0, member.size)] if holes is None else holes:
                if not 0 <= offset <= offset + length <= member.size:
                    raise _LayerFault(f"{member.name[:100]!r} has data behind its end")
                copy.seek(offset)
                if holes is not None:
                    digest.update(b"%d %d\n" % (offset, length))
                left = length
                while left:
                    piece = reader.read(min(left, _PIECE))
                    if not piece:
                        raise EOFError("it ends within a file")
                    digest.update(piece)
                    left -= len(piece)
                    self._write(copy, piece)
            copy.truncate(member.size)
        return digest.digest()

    def _write(self, copy: IO[bytes], piece: bytes) -> None:
        """The piece; a large one of zeros becomes a hole, which takes no room."""
        if len(piece) == _PIECE == piece.count(0):
            copy.seek(len(piece), os.SEEK_CUR)
            return
        self._left -= len(piece)
        if self._left < 0:
            raise self._full()
        copy.write(piece)

    def _add(self, path: str, entry: Entry) -> None:
        """A folder keeps what is in it; everything else is replaced by what comes."""
        old = self._all.get(path)
        if old and not (old.kind is Kind.FOLDER and entry.kind is Kind.FOLDER):
            self._remove_below(path, set())
        for parent in reversed(list(_above(path))):
            if parent not in self._all:
                self._put(parent, Entry(Kind.FOLDER))
        self._put(path, entry)

    def _put(self, path: str, entry: Entry) -> None:
        self._all[path] = entry
        folder, _, name = path.rpartition("/")
        self._children.setdefault(folder, set()).add(name)

    def _remove_below(self, path: str, kept: set[str]) -> None:
        """Take a path away with all that is below it, but for what is kept and its folders."""
        found, stack = [], [path]
        while stack:
            here = stack.pop()
            found.append(here)
            stack += [f"{here}/{name}" for name in self._children.get(here, ())]
        for here in reversed(found):  # what is in a folder comes after it
            if here in self._all and here not in kept and not self._children.get(here):
                del self._all[here]
                folder, _, name = here.rpartition("/")
                self._children[folder].discard(name)

    def _resolved(self, parts: list[str]) -> str:
        """A path; all but its last name is followed through links, never out of the tree."""
        return resolved(self._all, "/".join(parts))


class _LayerFault(Exception):
    """What a layer wants and no honest one does."""


class _Forward:
    """What `tarfile` needs of a file, of a stream that only goes on, and never much at once."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _HEADER_LIMIT:
            raise _LayerFault("a header that is longer than headers are")
        data = self._stream.read(size)
        self._position += len(data)
        return data

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:
        if whence != 0 or position < self._position:
            raise _LayerFault("a header that leads back to an earlier one")
        while self._position < position:
            if not self.read(min(position - self._position, _PIECE)):
                break
        return self._position


def _link(member: tarfile.TarInfo) -> Entry:
    target = member.linkname
    encoded = target.encode("utf-8", "surrogateescape")
    if not 0 < len(encoded) <= _PATH_LIMIT or b"\0" in encoded:
        raise _LayerFault(f"{member.name[:100]!r} is a link to no path")
    return _entry(member, Kind.LINK, digest=encoded, target=target)


def _entry(
    member: tarfile.TarInfo,
    kind: Kind,
    content: Path | None = None,
    digest: bytes = b"",
    target: str = "",
) -> Entry:
    if not (0 <= member.uid <= _ID_LIMIT and 0 <= member.gid <= _ID_LIMIT):
        raise _LayerFault(f"{member.name[:100]!r} has an owner that cannot be")
    modified = min(max(int(member.mtime), 0), _LATEST)
    return Entry(
        kind,
        member.mode & 0o7777,
        member.uid,
        member.gid,
        modified,
        content,
        digest,
        target,
        attributes(member),
    )


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _LayerFault(f"the name {name[:100]!r} leads out of the image")
    lengths = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    if "\0" in name or max(lengths, default=0) > _NAME_LIMIT:
        raise _LayerFault(f"the name {name[:100]!r} is too long for Linux or has a NUL")
    if sum(lengths) + len(lengths) > _PATH_LIMIT:
        raise _LayerFault(f"the path {name[:100]!r} is too long for Linux")
    return parts


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _hostile(why: str, name: str) -> LayerInvalid:
    return LayerInvalid(f"layer {name} is refused", why=why)
