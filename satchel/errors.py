# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The roots of the one exception tree. Leaves live beside the code that raises them.

    SatchelError                 exit 1   internal
    |-- UsageError               exit 2   usage         the request itself is wrong
    |-- NotFoundError            exit 3   not-found     nothing of that name is there
    |-- StateError               exit 4   state         right thing, wrong moment
    |-- ConflictError            exit 5   conflict      somebody else holds it, or it exists
    |-- IntegrityError           exit 6   integrity     data is not what its name says
    |-- CapacityError            exit 7   capacity      memory, disk, media or a quota is full
    |-- UnavailableError         exit 8   unavailable   a host, link or medium does not answer
    |-- AccessError              exit 9   access        wrong key, no permission, read-only
    `-- UnsupportedError         exit 10  unsupported   this host or version cannot do it

Exit codes and wire codes are attributes of the classes; documentation tables and the HTTP
translation are made from them. A leaf may add typed fields, never a new code.
"""

from __future__ import annotations

import errno
import re
from typing import ClassVar

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of the OSErrors of a write for which there is no room."""


_NUMBER = re.compile(r"\[Errno -?\d+\] ")
"""What Python puts before the words of an OSError, and nobody needs who has the words."""


class SatchelError(Exception):
    """Says what happened, on what, why, and what to do next.

    what: a clause without a full stop, naming the thing: "cannot open store /srv/store"
    why:  the cause, or empty
    fix:  what the reader can do next, or empty
    """

    exit_code: ClassVar[int] = 1
    wire_code: ClassVar[str] = "internal"

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        why = _NUMBER.sub("", why)
        super().__init__(what, why, fix)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        text = f"{self.what}: {self.why}" if self.why else self.what
        return f"{text}; {self.fix}" if self.fix else text


class UsageError(SatchelError):
    """The request is wrong: a bad name, a bad number, a contradiction."""

    exit_code = 2
    wire_code = "usage"


class NotFoundError(SatchelError):
    """Nothing has that name."""

    exit_code = 3
    wire_code = "not-found"


class StateError(SatchelError):
    """The request is valid, but not in the present state."""

    exit_code = 4
    wire_code = "state"


class ConflictError(SatchelError):
    """Another user holds it, or the name is already in use."""

    exit_code = 5
    wire_code = "conflict"


class IntegrityError(SatchelError):
    """The data does not match its name. Nothing was changed because of it."""

    exit_code = 6
    wire_code = "integrity"


class CapacityError(SatchelError):
    """Memory, disk, media or a quota is full."""

    exit_code = 7
    wire_code = "capacity"


class UnavailableError(SatchelError):
    """A host, a link or a medium does not answer now; the same call may work later."""

    exit_code = 8
    wire_code = "unavailable"


class AccessError(SatchelError):
    """The key is wrong, permission is missing, or the place is read-only."""

    exit_code = 9
    wire_code = "access"


class UnsupportedError(SatchelError):
    """This host, or this version of Satchel, cannot do it."""

    exit_code = 10
    wire_code = "unsupported"


ROOTS: tuple[type[SatchelError], ...] = (
    SatchelError,
    UsageError,
    NotFoundError,
    StateError,
    ConflictError,
    IntegrityError,
    CapacityError,
    UnavailableError,
    AccessError,
    UnsupportedError,
)
"""Every root, in the order of its exit code."""
