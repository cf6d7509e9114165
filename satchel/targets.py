# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Targets of HTTP requests (RFC 9112, 3.2): their parts, and which folder they are in."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

_ABSOLUTE = re.compile(r"https?://([^/?#]*)(?=[/?]|$)", re.IGNORECASE)
_SEGMENTS = re.compile(r"[/\\]")
_SAFE = "!$&'()*+,;=:@~"


def split_target(target: str) -> tuple[str | None, str]:
    """Return the authority of a target in absolute form, None for others, and the target in origin
    form: its path with its query."""
    found = _ABSOLUTE.match(target)
    if not found:
        return None, target
    rest = target[found.end() :]
    return found[1], rest if rest.startswith("/") else "/" + rest


def normal_path(path: str) -> str:
    """Return the path with each byte escaped in one way only. An escaped slash stays one. Bytes
    that differ give paths that differ, in UTF-8 or not."""
    return "/".join(quote(unquote_to_bytes(part), safe=_SAFE) for part in path.split("/"))


def without_dots(path: str) -> str:
    """Return the path without `.` and `..` (RFC 3986, 5.2.4), which may be escaped."""
    kept: list[str] = []
    parts = path.split("/")
    for number, part in enumerate(parts):
        plain = unquote_to_bytes(part)
        if plain == b".." and len(kept) > 1:
            kept.pop()
        if plain not in (b".", b".."):
            kept.append(part)
        elif number == len(parts) - 1:
            kept.append("")
    return "/".join(kept) if len(kept) != 1 else kept[0] + "/"


def leads_up(path: str) -> bool:
    """Return whether a server may find `..` in the path, however that is escaped: a server may
    take an escaped slash, or a backslash, for a slash."""
    return ".." in _SEGMENTS.split(unquote_to_bytes(path).decode("latin-1"))


def leaves(path: str, folder: str) -> bool:
    """Return whether a server may read a path in a folder as one that is outside of the folder."""
    found: list[str] = []
    for part in _parts(path):
        if part != "..":
            found += [part] if part != "." else []
        elif found:
            found.pop()
        else:
            return True
    return found[: len(_parts(folder))] != _parts(folder)


def may_meet(one: str, other: str) -> bool:
    """Return whether a server may take two paths for the same place, or one for a place below the
    other, whichever way it reads slashes."""
    first, second = _parts(one), _parts(other)
    count = min(len(first), len(second))
    return first[:count] == second[:count]


def _parts(path: str) -> list[str]:
    return [part for part in _SEGMENTS.split(unquote_to_bytes(path).decode("latin-1")) if part]


def is_plain(path: str) -> bool:
    """Return whether every server reads the path in the same way: no part is empty, has a slash in
    it or leads elsewhere."""
    parts = [unquote_to_bytes(part) for part in path.split("/")[1:]]
    odd = re.compile(rb"[/\\\0]|\.?\.?").fullmatch
    return all(not odd(part) and not re.search(rb"[/\\\0]", part) for part in parts)


def is_declared(target: str, folder: str) -> bool:
    """Return whether a target is a folder's or below it, whichever way a server reads its path. One
    that leads up is below no folder."""
    path = split_target(target)[1].partition("?")[0]
    if not path.startswith("/") or leads_up(path):
        return False
    found, below = (without_dots(normal_path(each)) for each in (path, folder))
    return found == below or found.startswith(below.rstrip("/") + "/")
