# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A tree into an ext4 file system, without mounting anything and without being root.

`mke2fs` makes it and `debugfs` fills it, entry by entry in the tree's order. (`mke2fs -d` takes the
order and the change times from the file system that it copies from, so two runs differ.) The same
tree gives the same bytes.

There is no journal: a machine's disk is only ever used together with the RAM that goes with it, so
nothing is recovered from a half-written disk, and a journal would be more blocks to carry. No
checksums of metadata either: every block is a chunk that has a SHA-256.
"""

from __future__ import annotations

import hashlib
import os
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
_REFUSED = '"\n\0'


class FileSystemBroken(SatchelError):
    """A tool of e2fsprogs failed: a defect of the builder."""


def write_ext4(disk: Path, size: int, tree: Mapping[str, Entry], scratch: Path, now: int) -> None:
    """Make the file `disk` of `size` bytes, sparse: a clean ext4 file system that holds `tree`.

    tree: every folder that its entries are in is there, before them. scratch: a folder for
    temporary files. now: seconds since 1970, the time of everything that has no other. Raises
    CapacityError when the file system is too small, UsageError for a path that debugfs cannot take.
    """
    with disk.open("xb") as file:
        file.truncate(size)
    options = f"hash_seed={UUID},assume_storage_prezeroed=1,lazy_itable_init=0,nodiscard"
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-b", str(BLOCK_SIZE), "-i", str(INODE_BYTES)]
    argv += ["-m", "0", "-U", UUID, "-O", FEATURES, "-E", options, str(disk)]
    _run(argv, now)
    script, values = scratch / "debugfs", scratch / "values"
    values.mkdir()
    with script.open("w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{command}\n" for command in _commands(tree, values))
    _run(["debugfs", "-w", "-f", str(script), str(disk)], now)
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


def _commands(tree: Mapping[str, Entry], values: Path) -> Iterator[str]:
    """What debugfs is told. It makes things in the folder that it is in, by their bare name.

    values: where what it reads extended attributes from is put.
    """
    here = "/"
    links: dict[int, list[str]] = {}
    for path, entry in tree.items():
        parent, name = path.rsplit("/", 1)
        if (parent or "/") != here:
            here = parent or "/"
            yield f"cd {_quoted(here)}"
        same = links.setdefault(id(entry), [])
        same.append(path)
        if entry.kind is Kind.FOLDER:
            yield f"mkdir {_quoted(name)}"
        elif entry.kind is Kind.LINK:
            yield f"symlink {_quoted(name)} {_quoted(entry.target)}"
        elif len(same) > 1:
            yield f"link {_quoted(same[0])} {_quoted(name)}"
        else:
            yield f"write {_quoted(str(entry.content))} {_quoted(name)}"
    for path, entry in tree.items():
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
    if any(character in text for character in _REFUSED):
        raise UsageError(f"cannot put {text[:200]!r} into a file system", why="of its characters")
    return f'"{text}"'


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
