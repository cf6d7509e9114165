# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Layers of a container's image, one upon the other, into a tree.

A layer is a tar archive of what it adds and changes; a member `.wh.NAME` takes NAME of the layers
below away, and `.wh..wh..opq` all that is in its folder (OCI image specification, layer.md). Who
made the archive may be a stranger, so nothing of it is unpacked by its name: contents become
numbered files, links are followed within the tree alone, and limits hold before anything is read.

Refused: names with `..`, hard links to absolute paths or to what is not there, device nodes and
pipes but for those of folders that the guest mounts over, archives larger than the guest's disk.
"""

from __future__ import annotations

import hashlib
import itertools
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from images.tree import Entry, Kind, Tree, attributes
from satchel.errors import CapacityError, IntegrityError

ENTRIES_LIMIT = 2_000_000
"""Members of all layers of one image."""

_PIECE = 1 << 20
_HEADER_LIMIT = 1 << 22
"""Of a header with its extensions: extended attributes have 64 KiB at most."""
_LINKS_LIMIT = 40
"""As many symbolic links on one path as Linux follows."""
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
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
        self.tree: Tree = {}
        self._children: dict[str, set[str]] = {}
        self._scratch, self._left, self._mounted = scratch, size, mounted
        self._size, self._numbers = size, itertools.count()

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
        except _LayerFault as error:
            raise _hostile(str(error), name) from None
        except _BROKEN as error:
            raise LayerInvalid(f"cannot read layer {name}", why=str(error)[:200]) from error

    def _count(self, member: tarfile.TarInfo) -> None:
        self._left -= member.size
        if self._left < 0:
            raise CapacityError(
                f"the container's image does not fit into {self._size >> 20} MiB",
                fix="give the recipe a larger disk-mib",
            )

    def _take(self, member: tarfile.TarInfo, reader: _Forward, own: set[str]) -> None:
        parts = _parts(member.name)
        if not parts:
            return
        path = self._resolved(parts)
        if any(path == folder or path.startswith(f"{folder}/") for folder in self._mounted):
            return
        folder, _, base = path.rpartition("/")
        if base == _OPAQUE:
            for child in sorted(self._children.get(folder, ())):
                self._remove_below(f"{folder}/{child}", own)
        elif base.startswith(_WHITEOUT):
            self._remove_below(f"{folder}/{base.removeprefix(_WHITEOUT)}", own)
        else:
            self._add(path, self._entry(member, reader))
            own.add(path)

    def _entry(self, member: tarfile.TarInfo, reader: _Forward) -> Entry:
        if member.isdir():
            return _entry(member, Kind.FOLDER)
        if member.issym():
            digest = member.linkname.encode("utf-8", "surrogateescape")
            return _entry(member, Kind.LINK, digest=digest, target=member.linkname)
        if member.islnk():
            if member.linkname.startswith("/"):
                raise _LayerFault(f"a hard link to the absolute path {member.linkname[:100]!r}")
            original = self.tree.get(self._resolved(_parts(member.linkname)))
            if original is None or original.kind is Kind.FOLDER:
                raise _LayerFault(
                    f"a hard link to {member.linkname[:100]!r}, which is not a file there"
                )
            return original
        if not member.isreg() or member.issparse():
            raise _LayerFault(f"{member.name[:100]!r} is a device, a pipe or no file that is known")
        content = self._scratch / str(next(self._numbers))
        digest = _copy(reader, member, content)
        return _entry(member, Kind.FILE, content, digest)

    def _add(self, path: str, entry: Entry) -> None:
        """A folder keeps what is in it; everything else is replaced by what comes."""
        old = self.tree.get(path)
        if old and not (old.kind is Kind.FOLDER and entry.kind is Kind.FOLDER):
            self._remove_below(path, set())
        for parent in reversed(list(_above(path))):
            if parent not in self.tree:
                self._put(parent, Entry(Kind.FOLDER))
        self._put(path, entry)

    def _put(self, path: str, entry: Entry) -> None:
        self.tree[path] = entry
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
            if here in self.tree and here not in kept and not self._children.get(here):
                del self.tree[here]
                folder, _, name = here.rpartition("/")
                self._children[folder].discard(name)

    def _resolved(self, parts: list[str]) -> str:
        """A path; all but its last name is followed through links, never out of the tree."""
        done: list[str] = []
        todo, links = parts[:-1][::-1], 0
        while todo:
            name = todo.pop()
            if name == "..":
                done = done[:-1]
                continue
            entry = self.tree.get("/" + "/".join([*done, name]))
            if entry is None or entry.kind is Kind.FOLDER:
                done.append(name)
                continue
            links += 1
            if entry.kind is Kind.FILE or links > _LINKS_LIMIT:
                raise _LayerFault(
                    f"{'/'.join(parts)[:100]!r} is below something that is not a folder"
                )
            if entry.target.startswith("/"):
                done = []
            todo += [n for n in entry.target.split("/") if n not in ("", ".")][::-1]
        return "/" + "/".join([*done, parts[-1]])


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


def _copy(reader: _Forward, member: tarfile.TarInfo, content: Path) -> bytes:
    digest, left = hashlib.sha256(), member.size
    reader.seek(member.offset_data)
    with content.open("xb") as copy:
        while left:
            piece = reader.read(min(left, _PIECE))
            if not piece:
                raise EOFError("it ends within a file")
            digest.update(piece)
            copy.write(piece)
            left -= len(piece)
    return digest.digest()


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
    return parts


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _hostile(why: str, name: str) -> LayerInvalid:
    return LayerInvalid(f"layer {name} is refused", why=why)
