# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a guest's root file system will hold: entries by path, read from tar archives and files.

Paths with one and the same entry are hard links of one file. Extended attributes are kept where a
guest has a use for them: capabilities of programs, and what users have set. Device nodes, pipes and
sockets are not carried over: the agent mounts a devtmpfs.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO

from satchel.errors import UsageError

_PIECE = 1 << 20
_LINKS_LIMIT = 40
"""Symbolic links that Linux follows on one path."""
_ATTRIBUTE = "SCHILY.xattr."
_KEPT = ("user.", "security.capability")


class Kind(Enum):
    """What an entry is."""

    FOLDER = "folder"
    FILE = "file"
    LINK = "link"


@dataclass(frozen=True)
class Entry:
    """One path of the guest.

    mode: permission bits. modified: seconds since 1970. content: a file on this host, of a FILE.
    digest: the SHA-256 of it, a LINK's target. target: of a LINK. attributes: extended ones, by
    name.
    """

    kind: Kind
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    modified: int = 0
    content: Path | None = None
    digest: bytes = b""
    target: str = ""
    attributes: tuple[tuple[str, bytes], ...] = ()


Tree = dict[str, Entry]
"""Entries by absolute path; the order is that in which they are laid out on the disk."""


def resolved(tree: Mapping[str, Entry], path: str, *, last: bool = False) -> str:
    """Follow links to where `path` is in the guest; they never lead out of the tree.

    last: also follow the last name. A name that the tree does not have stays as it is. Raises
    UsageError for a path below something that is not a folder, or with more links than Linux
    follows.
    """
    done: list[str] = []
    todo, links = [name for name in path.split("/") if name not in ("", ".")][::-1], 0
    while todo:
        name = todo.pop()
        if name == "..":
            done = done[:-1]
            continue
        entry = tree.get("/" + "/".join([*done, name]))
        if entry is None or entry.kind is Kind.FOLDER or not (todo or last):
            done.append(name)
            continue
        if entry.kind is Kind.FILE and not todo:
            done.append(name)
            continue
        links += 1
        if entry.kind is Kind.FILE or links > _LINKS_LIMIT:
            raise UsageError(f"{path[:100]!r} is below something that is not a folder")
        if entry.target.startswith("/"):
            done = []
        todo += [n for n in entry.target.split("/") if n not in ("", ".")][::-1]
    return "/" + "/".join(done)


def put(tree: Tree, path: str, entry: Entry) -> str:
    """Put an entry of the builder at `path`, follow the links on the way, and return the real path.

    It replaces the old entry and all below that. Raises UsageError for a path below a file."""
    place = resolved(tree, path)
    old = tree.get(place)
    if old and old.kind is Kind.FOLDER and entry.kind is not Kind.FOLDER:
        for below in [one for one in tree if one.startswith(f"{place}/")]:
            del tree[below]
    tree[place] = entry
    return place


def read_tar(archive: Path, scratch: Path, exclude: Sequence[str] = ()) -> Tree:
    """The tree of a tar archive; contents are unpacked as numbered files in `scratch`.

    exclude: paths that stay out, with all below them.
    """
    tree: Tree = {}
    with tarfile.open(archive) as tar:
        for number, member in enumerate(tar):
            path = "/" + member.name.removeprefix(".").strip("/")
            if path == "/" or _excluded(path, exclude):
                continue
            if member.isreg():
                file = tar.extractfile(member)
                assert file is not None
                content = scratch / f"{number}"
                tree[path] = _entry(member, Kind.FILE, content, _unpack(file, content))
            elif member.isdir():
                tree[path] = _entry(member, Kind.FOLDER)
            elif member.issym():
                tree[path] = _entry(member, Kind.LINK, None, member.linkname.encode())
            elif member.islnk():
                original = "/" + member.linkname.removeprefix(".").strip("/")
                if original in tree:
                    tree[path] = tree[original]
    return tree


def attributes(member: tarfile.TarInfo) -> tuple[tuple[str, bytes], ...]:
    """The extended attributes that a member of an archive has and that are kept."""
    found = []
    for key, value in sorted(member.pax_headers.items()):
        name = key.removeprefix(_ATTRIBUTE)
        if key != name and name.startswith(_KEPT):
            found.append((name, value.encode("utf-8", "surrogateescape")))
    return tuple(found)


def read_digests(archive: Path) -> dict[str, bytes]:
    """What `Entry.digest` is of everything in a tar archive, by path, in the archive's order."""
    digests = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            path = "/" + member.name.removeprefix(".").strip("/")
            if member.isdir() or member.issym():
                digests[path] = member.linkname.encode()
            elif member.isreg():
                file = tar.extractfile(member)
                assert file is not None
                digests[path] = _copy(file, None)
    return digests


def file_entry(path: Path, modified: int) -> Entry:
    """A file of this host as a file of root in the guest."""
    mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    digest = hashlib.sha256(path.read_bytes()).digest()
    return Entry(Kind.FILE, mode, modified=modified, content=path, digest=digest)


def with_folders(tree: Mapping[str, Entry], modified: int) -> Tree:
    """The same entries, each after the folders that it is in, also those that were not there."""
    placed: Tree = {}
    for path, entry in tree.items():
        for parent in reversed(list(_parents(path))):
            if parent not in placed:
                placed[parent] = tree.get(parent, Entry(Kind.FOLDER, modified=modified))
        placed[path] = entry
    return placed


def base_first(tree: Mapping[str, Entry], base: Mapping[str, bytes]) -> Tree:
    """The same entries: what is in /usr as in the base, in the base's order, then the rest by path.

    So images of one base share the blocks that describe their common files, too. Elsewhere, files
    such as dpkg's status change with every package, which would move all that comes after them.
    Folders come before what is in them, as they do in the base.
    """
    common = {
        path: tree[path]
        for path, digest in base.items()
        if f"{path}/".startswith("/usr/") and path in tree and tree[path].digest == digest
    }
    rest = {path: tree[path] for path in sorted(tree) if path not in common}
    return {**common, **rest}


def _excluded(path: str, exclude: Sequence[str]) -> bool:
    return any(path == left_out or path.startswith(f"{left_out}/") for left_out in exclude)


def _parents(path: str) -> Iterator[str]:
    while (path := path.rsplit("/", 1)[0]) != "":
        yield path


def _entry(
    member: tarfile.TarInfo, kind: Kind, content: Path | None = None, digest: bytes = b""
) -> Entry:
    return Entry(
        kind,
        member.mode & 0o7777,
        member.uid,
        member.gid,
        int(member.mtime),
        content,
        digest,
        member.linkname if kind is Kind.LINK else "",
        attributes(member),
    )


def _unpack(file: IO[bytes], content: Path) -> bytes:
    with content.open("xb") as copy:
        return _copy(file, copy)


def _copy(file: IO[bytes], copy: IO[bytes] | None) -> bytes:
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
        if copy:
            copy.write(piece)
    return digest.digest()
