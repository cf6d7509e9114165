# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a guest has to have that the image of a container may lack, and who its service's user is.

A container's runtime brings /etc/hosts and /etc/resolv.conf, and an image of one static program may
have no shell, which the agent starts services by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from images.recipe import SHIPPED, Recipe
from images.tree import Entry, Kind, Tree, file_entry, put, resolved
from satchel.errors import UsageError

ROOT = "root"
BUSYBOX_PATH = "/usr/lib/satchel/busybox"
_ID_LIMIT = (1 << 32) - 2
_TABLE_LIMIT = 4 << 20
"""Bytes of a table of accounts that the guest's agent reads."""


@dataclass(frozen=True)
class GuestAccount:
    """Who runs the service. name: in the agent's words, which know no names of groups; home: where
    the agent cannot tell by the name."""

    name: str
    uid: int
    gid: int
    home: str

    @classmethod
    def find(cls, tree: Tree, recipe: Recipe) -> GuestAccount:
        """The recipe's user, by the image's own /etc/passwd and /etc/group. Raises UsageError."""
        user, _, group = recipe.user.partition(":")
        found = next(
            (row for row in _rows(tree, "/etc/passwd", 6) if user in (row[0], row[2])), None
        )
        if found is None and user == ROOT:
            user = "0"  # an image of one program has no table of accounts
        if found is None and not user.isdecimal():
            raise UsageError(f"recipe {recipe.name}: no user {user} in the image")
        uid, gid = (int(found[2]), int(found[3])) if found else (int(user), 0)
        if group:
            gid = _group(tree, recipe, group)
        if max(uid, gid) > _ID_LIMIT:
            raise UsageError(
                f"recipe {recipe.name}: {recipe.user[:80]} is too large a number for an account"
            )
        if found and not group and not user.isdecimal():
            return cls(user, uid, gid, "")
        return cls(f"{uid}:{gid}", uid, gid, found[5] if found else "/")


def container_files(tree: Tree, busybox: Path, now: int) -> Tree:
    """The same tree with what a runtime would bring. busybox: a static one on this host."""
    for path in ("/etc/hosts", "/etc/resolv.conf"):
        put(tree, path, file_entry(SHIPPED / f"base/files{path}", now))
    if resolved(tree, "/bin/sh") not in tree:
        put(tree, BUSYBOX_PATH, file_entry(busybox, now))
        put(tree, "/bin/sh", Entry(Kind.LINK, 0o777, modified=now, target=BUSYBOX_PATH))
    return tree


def _group(tree: Tree, recipe: Recipe, group: str) -> int:
    if group.isdecimal():
        return int(group)
    for row in _rows(tree, "/etc/group", 3):
        if row[0] == group:
            return int(row[2])
    raise UsageError(f"recipe {recipe.name}: no group {group} in the image")


def _rows(tree: Tree, path: str, columns: int) -> Iterator[list[str]]:
    """Of a table of accounts, the rows that are whole: an image may be anybody's."""
    entry = tree.get(resolved(tree, path, last=True))
    if entry is None or entry.content is None:
        return
    with entry.content.open("rb") as file:
        text = file.read(_TABLE_LIMIT).decode(errors="replace")
    for line in text.split("\n"):
        row = line.split(":")
        if len(row) >= columns and row[2].isdecimal() and (columns < 4 or row[3].isdecimal()):
            yield row
