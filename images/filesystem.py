# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A tree into an ext4 file system, without mounting anything and without being root.

`mke2fs` makes it and `debugfs` fills it, entry by entry in the tree's order. (`mke2fs -d` takes the
order and the change times from the file system that it copies from, so two runs differ.) The same
tree gives the same bytes.

debugfs reads a command from a line and ends it at a newline or a carriage return. A name or a link
with one of these gets another one of the same length, and its bytes are put in place afterwards.

There is no journal: a machine's disk is only ever used together with the RAM that goes with it, so
nothing is recovered from a half-written disk, and a journal would be more blocks to carry. No
checksums of metadata either: every block is a chunk that has a SHA-256.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from images.tree import Entry, Kind
from satchel.errors import CapacityError, SatchelError, UnsupportedError, UsageError

UUID = "5a7c4e10-0000-4000-8000-000000000001"
FEATURES = "^has_journal,^metadata_csum,^64bit,^resize_inode,^orphan_file"
BLOCK_SIZE = 4096
INODE_BYTES = 16384
"""One inode for so many bytes of disk."""

_SBIN = "/usr/sbin:/sbin"
_LINE_ENDS = ("\n", "\r")
_LINE_LIMIT = 8000
"""Bytes of a command; debugfs has a buffer of 8192."""
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_FAST_LINK = 60
"""A link to a shorter path is in the inode."""
_INODE_BLOCKS = 40
"""The offset of the link in its inode."""
_RECORD = struct.Struct("<IHB")


class FileSystemBroken(SatchelError):
    """A tool of e2fsprogs failed: a defect of the builder."""


def write_ext4(disk: Path, size: int, tree: Mapping[str, Entry], scratch: Path, now: int) -> None:
    """Make the file `disk` of `size` bytes, sparse: a clean ext4 file system that holds `tree`.

    tree: every folder that its entries are in is there, before them. scratch: a folder for
    temporary files. now: seconds since 1970, the time of everything that has no other. Raises
    CapacityError when the file system is too small, UsageError for a path that none takes.
    """
    with disk.open("xb") as file:
        file.truncate(size)
    options = f"hash_seed={UUID},assume_storage_prezeroed=1,lazy_itable_init=0,nodiscard"
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-b", str(BLOCK_SIZE), "-i", str(INODE_BYTES)]
    argv += ["-m", "0", "-U", UUID, "-O", FEATURES, "-E", options, str(disk)]
    _run(argv, now)
    script, values = scratch / "debugfs", scratch / "values"
    values.mkdir()
    names = _StandIns(tree)
    with script.open("w", encoding="utf-8", errors="surrogateescape") as file:
        for command in _commands(tree, names, values):
            if len(command.encode("utf-8", "surrogateescape")) > _LINE_LIMIT:
                raise _impossible(command, "its path is too long")
            file.write(f"{command}\n")
    _run(["debugfs", "-w", "-f", str(script), str(disk)], now)
    names.replace(disk)
    _run(["e2fsck", "-f", "-n", str(disk)], now)


def read_file(disk: Path, path: str) -> bytes:
    """What is in a file of a disk that `write_ext4` has made; empty where there is none."""
    return _run(["debugfs", "-R", f"cat {_quoted(path)}", str(disk)], 0).encode()


def replace_file(disk: Path, path: str, content: Path) -> None:
    """Give a file of such a disk, root's and 0644, the content of a file of this host."""
    parent, name = path.rsplit("/", 1)
    commands = [f"cd {_quoted(parent or '/')}", f"rm {_quoted(name)}"]
    commands.append(f"write {_quoted(str(content))} {_quoted(name)}")
    commands.append(f"set_inode_field {_quoted(path)} mode 0100644")
    script = content.with_suffix(".debugfs")
    script.write_text("".join(f"{command}\n" for command in commands), encoding="utf-8")
    try:
        _run(["debugfs", "-w", "-f", str(script), str(disk)], 0)
        _run(["e2fsck", "-f", "-n", str(disk)], 0)
    finally:
        script.unlink()


def copy_sparse(disk: Path, target: Path) -> None:
    """The same content in a new file; zeros take no room there."""
    _run(["cp", "--sparse=always", str(disk), str(target)], 0)


class _StandIns:
    """Names and links that no command can contain, and their stand-ins of the same length."""

    def __init__(self, tree: Mapping[str, Entry]) -> None:
        self._names: dict[tuple[str, str], str] = {}  # by folder, as debugfs knows it, and name
        self._links: dict[str, str] = {}  # targets, by path as debugfs knows it
        self._taken: set[str] = set(tree) if any(map(_ends_line, tree)) else set()
        self._candidates: dict[tuple[str, int], Iterator[str]] = {}

    def path(self, path: str) -> str:
        """The path with stand-ins."""
        if not _ends_line(path):
            return path
        told, real = "", ""
        for name in path.split("/")[1:]:
            real += f"/{name}"
            told += f"/{self._name(told, real) if _ends_line(name) else name}"
        return told

    def target(self, path: str, target: str) -> str:
        """The target of the link at `path`, or its stand-in."""
        if not _ends_line(target):
            return target
        self._links[path] = target
        return "x" * len(_bytes(target))

    def _name(self, folder: str, real: str) -> str:
        parent, _, name = real.rpartition("/")
        length = len(_bytes(name))
        known = self._names.get((folder, name))
        if known is not None:
            return known
        words = itertools.product(_ALPHABET, repeat=length)
        candidates = self._candidates.setdefault((folder, length), map("".join, words))
        free = next((one for one in candidates if f"{parent}/{one}" not in self._taken), None)
        if free is None:
            raise _impossible(real, "there are too many names like it in its folder")
        self._names[folder, name] = free
        return free

    def replace(self, disk: Path) -> None:
        """Put the real names and targets into the file system."""
        if not self._names and not self._links:
            return
        links = [
            (_place_of_link(disk, path, target), target) for path, target in self._links.items()
        ]
        folders: dict[str, dict[bytes, bytes]] = {}
        for (folder, name), told in self._names.items():
            folders.setdefault(folder, {})[_bytes(told)] = _bytes(name)
        blocks = [(_blocks(disk, folder or "/"), names) for folder, names in folders.items()]
        with disk.open("r+b") as file:  # the paths with stand-ins are not valid below
            for place, target in links:
                file.seek(place)
                file.write(_bytes(target))
            for numbers, names in blocks:
                for number in numbers:
                    file.seek(number * BLOCK_SIZE)
                    data = _renamed(file.read(BLOCK_SIZE), names)
                    file.seek(number * BLOCK_SIZE)
                    file.write(data)


def _place_of_link(disk: Path, path: str, target: str) -> int:
    """The offset of a link's target on the disk."""
    if len(_bytes(target)) >= _FAST_LINK:
        return _blocks(disk, path)[0] * BLOCK_SIZE
    said = _run(["debugfs", "-R", f"imap {_quoted(path)}", str(disk)], 0)
    found = re.search(r"located at block (\d+), offset 0x([0-9a-f]+)", said)
    if not found:
        raise FileSystemBroken("debugfs does not tell where an inode is", why=said[:200])
    return int(found[1]) * BLOCK_SIZE + int(found[2], 16) + _INODE_BLOCKS


def _blocks(disk: Path, path: str) -> list[int]:
    said = _run(["debugfs", "-R", f"blocks {_quoted(path)}", str(disk)], 0)
    return [int(number) for number in said.split()]


def _renamed(block: bytes, names: Mapping[bytes, bytes]) -> bytes:
    """A block of a folder with other names of the same lengths."""
    data, at = bytearray(block), 0
    while at + _RECORD.size < len(data):
        _, length, size = _RECORD.unpack_from(data, at)
        name = bytes(data[at + 8 : at + 8 + size])
        data[at + 8 : at + 8 + size] = names.get(name, name)
        if length < 8:
            break
        at += length
    return bytes(data)


def _ends_line(text: str) -> bool:
    return any(end in text for end in _LINE_ENDS)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _commands(tree: Mapping[str, Entry], names: _StandIns, values: Path) -> Iterator[str]:
    """What debugfs is told. It makes things in the folder that it is in, by their bare name.

    values: where what it reads extended attributes from is put.
    """
    here = "/"
    links: dict[int, list[str]] = {}
    for real, entry in tree.items():
        path = names.path(real)
        parent, name = path.rsplit("/", 1)
        if (parent or "/") != here:
            here = parent or "/"
            yield f"cd {_quoted(here)}"
        same = links.setdefault(id(entry), [])
        same.append(path)
        if entry.kind is Kind.FOLDER:
            yield f"mkdir {_quoted(name)}"
        elif entry.kind is Kind.LINK:
            yield f"symlink {_quoted(name)} {_quoted(names.target(path, entry.target))}"
        elif len(same) > 1:
            yield f"link {_quoted(same[0])} {_quoted(name)}"
        else:
            yield f"write {_quoted(str(entry.content))} {_quoted(name)}"
    for real, entry in tree.items():
        path = names.path(real)
        if entry.kind is Kind.FILE and path != links[id(entry)][0]:
            continue
        yield from _attributes(path, entry, len(links[id(entry)]))
        for name, value in entry.attributes:
            file = values / hashlib.sha256(value).hexdigest()
            file.write_bytes(value)
            yield f"ea_set -f {_quoted(str(file))} {_quoted(path)} {_quoted(name)}"


def _attributes(path: str, entry: Entry, links: int) -> Iterator[str]:
    bits = {Kind.FOLDER: 0o040000, Kind.FILE: 0o100000, Kind.LINK: 0o120000}[entry.kind]
    fields = {"mode": f"0{bits | entry.mode:o}", "uid": str(entry.uid), "gid": str(entry.gid)}
    if entry.kind is Kind.FILE and links > 1:
        fields["links_count"] = str(links)
    for name in ("atime", "ctime", "mtime", "crtime"):
        fields[name] = f"@{entry.modified}"
    for field, value in fields.items():
        if value != "0":
            yield f"set_inode_field {_quoted(path)} {field} {value}"


def _quoted(text: str) -> str:
    """A word of a command. Within quotes debugfs takes two of them for one."""
    if _ends_line(text) or "\0" in text:
        raise _impossible(text, "of its characters")
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _impossible(text: str, why: str) -> UsageError:
    return UsageError(f"cannot put {text[:200]!r} into a file system", why=why)


def _run(argv: list[str], now: int) -> str:
    """What it printed."""
    path = f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"
    environment = {"PATH": path, "LC_ALL": "C.UTF-8", "E2FSPROGS_FAKE_TIME": str(now)}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**environment, "DEBUGFS_PAGER": "cat", "MKE2FS_SKIP_CHECK_MSG": "1"},
            check=False,
        )
    except FileNotFoundError as error:
        raise UnsupportedError(
            f"no {argv[0]} on this host", fix="install the Debian package e2fsprogs"
        ) from error
    complaints = [row for row in done.stderr.splitlines() if not row.startswith(f"{argv[0]} 1.")]
    if done.returncode == 0 and (not complaints or argv[0] == "e2fsck"):
        return done.stdout
    why = "\n".join([*done.stdout.splitlines()[-5:], *complaints[:10]])
    if "No free space" in why or "Could not allocate" in why:
        fix = "give the recipe a larger disk-mib"
        raise CapacityError(f"the image does not fit into {argv[-1]}", why=why, fix=fix)
    if "No space left" in why:
        raise CapacityError(f"no space left for {argv[-1]}", why=why)
    raise FileSystemBroken(f"{argv[0]} failed with exit status {done.returncode}", why=why)
