# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The paths of a client: those of its owner, and its own (docs/formats/client-state.md).

A path says what comes after each of its surrogates but the last. Where none says it, what came next
the last times does: counts of pairs of surrogates that followed each other (a Markov chain of first
order). Another predictor is another function of the same arguments as `likely_next`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from client.state.kept import decode_rows, encode_rows, load, save
from satchel.errors import ConflictError, IntegrityError, NotFoundError, UsageError
from satchel.names import check_name

VERSION = 1

LEAST_OFTEN = 2
"""How often one surrogate must have followed another until it is expected again."""

LEAST_PART = 0.5
"""What part of the times."""

Path_ = tuple[str, ...]
"""Surrogates, in the order in which they are visited."""


class PathsInvalid(IntegrityError):
    """The bytes are not a list of paths, or are of another version."""


def likely_next(here: str, paths: Sequence[Path_], visited: Sequence[str]) -> str | None:
    """The surrogate after this one, or None where nothing says it.

    paths: the newest last, which goes before the others; visited: the oldest first
    """
    for path in reversed(paths):
        for place, following in itertools.pairwise(path):
            if place == here:
                return following
    followed = Counter(b for a, b in itertools.pairwise(visited) if a == here and b != here)
    for name, count in followed.most_common(1):
        if count >= LEAST_OFTEN and count >= LEAST_PART * followed.total():
            return name
    return None


def encode(paths: Sequence[Path_]) -> bytes:
    return encode_rows(VERSION, "paths", [list(path) for path in paths])


def decode(data: bytes) -> list[Path_]:
    """The paths, the oldest first. Raises PathsInvalid."""
    try:
        return [_checked(path) for path in decode_rows(data, VERSION, "paths")]
    except (ValueError, KeyError, TypeError, RecursionError, UsageError) as error:
        raise PathsInvalid("these are not paths", why=str(error)[:200]) from error


def _checked(names: Sequence[str]) -> Path_:
    """Raises UsageError for what is no path."""
    if not isinstance(names, (list, tuple)) or len(names) < 2:
        fix = "give their names in the order in which you come by"
        raise UsageError("a path has two surrogates at least", fix=fix)
    if any(a == b for a, b in itertools.pairwise(names)):
        raise UsageError("a path does not go from a surrogate to itself")
    return tuple(check_name(name, "surrogate") for name in names)


class Paths:
    """In a file of the client's state. Losing it costs bytes that are fetched later."""

    def __init__(self, state: Path) -> None:
        self._path = state / "paths.json"

    def all(self) -> list[Path_]:
        """The oldest first; none where the file is missing or damaged, which is logged."""
        return load(self._path, decode)

    def add(self, names: Sequence[str]) -> None:
        """Raises UsageError for what is no path, ConflictError for one that is there already."""
        path, known = _checked(names), self.all()
        if path in known:
            raise ConflictError(f"the path {' '.join(path)} is there already")
        self._write([*known, path])

    def remove(self, names: Sequence[str]) -> None:
        """Raises NotFoundError."""
        path, known = tuple(names), self.all()
        if path not in known:
            raise NotFoundError(f"there is no path {' '.join(path)}", fix="`satchel path ls`")
        self._write([other for other in known if other != path])

    def _write(self, paths: Sequence[Path_]) -> None:
        save(self._path, encode(paths))
