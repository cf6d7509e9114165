# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the policy `predicted` has learnt at a mount, on disk: docs/formats/mount-habits.md.

It is a hint: a file that cannot be read, or that is another share's, is logged and begun anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from satchel.errors import IntegrityError
from shares.protocol import Answers, FileId, Tables

log = logging.getLogger(__name__)

VERSION = 1
SAVED = 16384
"""Contexts that are saved: those that were answered last."""

SIZE_LIMIT = 16 << 20
LONGEST = 64
"""Of a tuple in a context, and of a group."""


class HabitsInvalid(IntegrityError):
    """Bytes that are no habits."""


def load_habits(path: Path, home: str, share: str) -> Tables:
    """Empty where there are none, where they are another share's, and where they are damaged."""
    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise HabitsInvalid("the habits of a mount are damaged", why="they are too long")
        return decode(path.read_bytes(), home, share)
    except FileNotFoundError:
        pass
    except (OSError, HabitsInvalid) as error:
        log.warning("cannot read %s, and learn anew: %s", path, error)
    return Tables()


def encode(home: str, share: str, tables: Tables) -> bytes:
    skipped = max(0, len(tables.answers) - SAVED)
    answers = islice(tables.answers.items(), skipped, None)
    found = {
        "version": VERSION,
        "home": home,
        "share": share,
        "answers": [[context, each.elsewhere, each.here] for context, each in answers],
        "groups": [[*place, numbers] for place, numbers in tables.groups.items()],
        "before": [[*place, answers] for place, answers in tables.before.items()],
    }
    return json.dumps(found, separators=(",", ":")).encode()


def decode(data: bytes, home: str, share: str) -> Tables:
    """Raises HabitsInvalid."""
    try:
        found = json.loads(data)
        if found["version"] != VERSION:
            why = f"their version is {found['version']!r}, and {VERSION} is known here"
            raise HabitsInvalid("the habits of a mount cannot be read", why=why)
        if (found["home"], found["share"]) != (home, share):
            raise HabitsInvalid(
                "the habits of a mount are of no use", why="they are of another share"
            )
        return _tables(found)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise HabitsInvalid("the habits of a mount are damaged", why=str(error)) from error


def _tables(found: dict[str, Any]) -> Tables:
    tables = Tables()
    for context, elsewhere, here in found["answers"]:
        answers = Answers(float(elsewhere), float(here))
        if not (answers.elsewhere >= 0 and answers.here >= 0 and 0 < answers.count < SAVED):
            raise ValueError("a context was answered less than never")
        tables.answers[_context(context)] = answers
    for file, number, group in found["groups"]:
        tables.groups[FileId(_number(file)), _number(number)] = _all(_number, group)
    for file, number, before in found["before"]:
        tables.before[FileId(_number(file)), _number(number)] = _all(bool, before)
    return tables


def _all(what: Any, values: Iterable[Any]) -> tuple[Any, ...]:
    found = tuple(what(value) for value in values)
    if len(found) > LONGEST:
        raise ValueError("a list is too long")
    return found


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("what should be a number is none")
    return value


def _context(value: object) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise TypeError("a context is no list")
    return _all(_word, value)


def _word(value: object) -> object:
    if value is None or isinstance(value, str | int):
        return value
    return _context(value)
