# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The moves of a service that were made, with what was predicted; docs/formats/client-state.md."""

from __future__ import annotations

import itertools
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from client.moves.routes import MoveRecord, Route
from client.state.kept import decode_rows, encode_rows, load, save
from satchel.errors import IntegrityError

logger = logging.getLogger(__name__)

VERSION = 3
"""1: with the pace that was known before instead of what the replay took."""

KEPT = 64
"""Moves, the newest ones."""

_NUMBERS = ("bytes", "asked_seconds", "replayed", "replay_seconds", "seconds", "predicted")
_TEXTS = ("at", "surrogate", "checkpoint", "near")


class MovesInvalid(IntegrityError):
    """The bytes are not a history of moves, or are of another version."""


def encode(moves: list[MoveRecord]) -> bytes:
    """The bytes of the newest ones."""
    rows = [asdict(move) | {"route": move.route.value} for move in moves[-KEPT:]]
    return encode_rows(VERSION, "moves", rows)


def decode(data: bytes) -> list[MoveRecord]:
    """The moves, the oldest first. Raises MovesInvalid."""
    try:
        return [_made(row) for row in decode_rows(data, VERSION, "moves")]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MovesInvalid("not a history of moves", why=str(error)[:200]) from error


def _made(row: Any) -> MoveRecord:
    if set(row) != {*_NUMBERS, *_TEXTS, "route"}:
        raise ValueError("a move has other fields")
    if not all(type(row[key]) is str for key in _TEXTS):
        raise ValueError("a name is not a text")
    if not all(type(row[key]) in (int, float) and 0 <= row[key] < 1e15 for key in _NUMBERS):
        raise ValueError("a number is malformed")
    if not row["seconds"]:
        raise ValueError("a move took no time")
    return MoveRecord(**row | {"route": Route(row["route"])})


def _dated(moves: list[MoveRecord]) -> list[tuple[str, MoveRecord]]:
    """Return each move with its time, but none later than a following one: a clock was ahead."""
    times = itertools.accumulate((move.at for move in reversed(moves)), min)
    return list(zip(reversed([*times]), moves, strict=True))


class History:
    """Of one service, in a file. Losing it costs predictions and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, state: Path, service: str) -> History:
        """In the folder of a client's state."""
        return cls(state / "moves" / f"{service}.json")

    def moves(self) -> list[MoveRecord]:
        """The oldest first; none where the file is missing or damaged, which is logged."""
        return load(self._path, decode)

    def of_others(self) -> list[MoveRecord]:
        """Of the other services whose files are beside this one's, the oldest first."""
        paths = [path for path in self._path.parent.glob("*.json") if path != self._path]
        dated = itertools.chain(*(_dated(load(path, decode)) for path in paths))
        return [made for _, made in sorted(dated, key=lambda each: each[0])]

    def add(self, move: MoveRecord) -> None:
        """Note a move. One that could not be read again, and a disk that does not take it, are
        logged."""
        data = encode([*self.moves(), move])
        try:
            decode(data)
            save(self._path, data)
        except (MovesInvalid, OSError) as error:
            logger.warning("%s: %s", self._path, error)
