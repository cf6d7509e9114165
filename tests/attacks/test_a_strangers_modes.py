# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A stranger with a grant to write, or a guest, wants a program with another user's rights at home.
The surrogate's attacker speaks the protocol of nodes by itself, the guest's speaks FUSE."""

import contextlib
import errno
import os
import stat
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from guestshares.kernel import Opcode
from shares.node import (
    Buffer,
    Changes,
    DirEntry,
    Member,
    NewEntry,
    Node,
    PendingCreate,
    RawFile,
    codec,
    open_file,
)
from shares.protocol import FileId
from tests.attacks.test_a_writing_surrogate import Attacker, attackers, edges, node_socket
from tests.conftest import requires
from tests.guestshares.edges import Edges
from tests.guestshares.home import Home
from tests.guestshares.kernel import ROOT
from wire import Caller

__all__ = ["attackers", "edges"]

pytestmark = requires("fuse")

ARMED = 0o6755
OWNER = (4321, 4322) if os.geteuid() == 0 else (os.getuid(), os.getgid())


@pytest.fixture
def attacker(home: Home, edges: Edges, attackers: list[Attacker]) -> Attacker:
    os.chown(home.papers, *OWNER)
    edges.grant("near")
    attackers.append(Attacker(node_socket(home)))
    assert attackers[0].is_in()
    return attackers[0]


def assert_plain(path: Path) -> None:
    now = path.lstat()
    assert now.st_mode & 0o7000 == 0, f"{path.name} has the mode {now.st_mode:o}"
    assert (now.st_uid, now.st_gid) == OWNER


def raw(node: Node, path: str) -> RawFile:
    file = open_file(node, path, "r+b", buffering=0)
    assert isinstance(file, RawFile)
    return file


def finds(attacker: Attacker, name: bytes) -> FileId:
    found: DirEntry = codec.decode_reply(attacker.calls("lookup", 1, name), DirEntry)
    return found.attributes.file


def armed(home: Home, name: str = "tool") -> Path:
    """A program of the owner's with set-ID bits."""
    path = home.papers / name
    path.write_bytes(b"#!/bin/true\n" * 1000)
    os.chown(path, *OWNER)
    path.chmod(ARMED)
    return path


def test_what_a_surrogate_makes_is_plain_and_the_folders_owners(
    home: Home, attacker: Attacker
) -> None:
    attacker.calls("ids")
    attacker.calls("create", 1, b"file", 0o100000 | ARMED, 0, 0, False)
    attacker.calls("make_link", 1, b"link", b"/etc/shadow", 0, 0)
    made: Any = codec.decode_reply(
        attacker.calls("make_folder", 1, b"folder", 0o7777, 0, 0), NewEntry
    )
    folder = made.entry.attributes.file
    first = codec.decode_reply(attacker.calls("ids"), tuple[int, int])[0]
    attacker.calls("make", PendingCreate(first, folder, b"ahead", ARMED, 0, 0, 1))
    attacker.calls("make_again", PendingCreate(first + 1, folder, b"again", ARMED, 0, 0, 1))
    for name in ("file", "link", "folder", "folder/ahead", "folder/again"):
        assert_plain(home.papers / name)


def test_a_surrogate_changes_no_mode_or_owner_to_a_privileged_one(
    home: Home, attacker: Attacker
) -> None:
    os.chown(home.papers / "a", *OWNER)
    file = finds(attacker, b"a")
    for target in (file, 1):
        attacker.calls("change", target, Changes(mode=0o100000 | ARMED))
        for changes in (Changes(uid=0), Changes(gid=0), Changes(mode=ARMED, uid=0, gid=0)):
            if {changes.uid, changes.gid} <= {None, *OWNER}:
                continue
            with pytest.raises(PermissionError):
                attacker.calls("change", target, changes)
    assert_plain(home.papers / "a")
    assert_plain(home.papers)


def test_a_surrogate_writes_to_no_program_with_set_id_bits(home: Home, attacker: Attacker) -> None:
    names = ("cut", "punched", "written", "copied", "moved")
    paths = {name: armed(home, name) for name in names}
    attacker.calls("change", finds(attacker, b"cut"), Changes(size=5))
    attacker.calls("allocate", finds(attacker, b"punched"), 3, 0, 4096)
    with pytest.raises(PermissionError):
        attacker.calls("link", finds(attacker, b"moved"), 1, b"twin")
    copies = home.folder / "copies-mine"
    copies.mkdir()
    member = Member(partial(Caller, node_socket(home)), "papers", "files", Buffer(copies))
    with contextlib.closing(member), raw(member.node, "written") as file:
        file.write(b"#!/bin/sh\n")
        file.sync()
        with raw(member.node, "copied") as other:
            other.write(b"#!/bin/sh\n")
            other.sync()
            paths["copied"].write_bytes(b"home's")  # a program of home changes it meanwhile
            paths["copied"].chmod(ARMED)
            other.write(b"#!/bin/sh\n")
            other.sync()
    for name in ("cut", "punched", "written"):
        assert_plain(paths[name])
    for path in home.papers.glob("*sync-conflict*"):
        assert_plain(path)
    assert paths["written"].read_bytes().startswith(b"#!/bin/sh\n")
    assert stat.S_IMODE(paths["moved"].stat().st_mode) == ARMED
    assert not (home.papers / "twin").exists()


def setattr_body(valid: int, mode: int = 0, uid: int = 0, gid: int = 0) -> bytes:
    """fuse_setattr_in."""
    return struct.pack(
        "<IIQQQQQQIIIIIIII", valid, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, mode, 0, uid, gid, 0
    )


def test_a_guest_leaves_no_file_with_set_id_bits(home: Home, edges: Edges) -> None:
    """Neither at home nor, without a grant, at a surrogate."""
    os.chown(home.papers, *OWNER)
    for number, guest in enumerate((home.guest(), home.distant())):
        operation = 11 + number
        home.logs(operation)
        made = struct.pack("<IIII", os.O_RDWR, 0o100000 | ARMED, 0, 0)
        node = struct.pack("<IIII", 0o100000 | ARMED, 0, 0, 0)
        folder = struct.pack("<II", 0o7777, 0)
        name = b"%d\0" % number
        for opcode, body in (
            (Opcode.CREATE, made + b"file" + name),
            (Opcode.MKNOD, node + b"node" + name),
            (Opcode.MKDIR, folder + b"folder" + name),
        ):
            assert guest.ask(opcode, body, ROOT, operation)[0] == 0
        file = guest.lookup(f"file{number}", operation)
        for target in (file, guest.lookup(f"folder{number}", operation)):
            mode = guest.ask(Opcode.SETATTR, setattr_body(1, ARMED), target, operation)
            assert mode[0] == 0
        given = guest.ask(Opcode.SETATTR, setattr_body(2, uid=OWNER[0] + 1), file, operation)
        assert given[0] == errno.EPERM
        for kind in ("file", "node", "folder"):
            assert_plain(home.papers / f"{kind}{number}")
