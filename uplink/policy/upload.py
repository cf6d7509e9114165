# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""An upload that is held, and the states that it goes through.

    received --durable--> held <--> flushing --> confirmed
                           ^ |         |-------> conflict     (somebody else changed the file)
                           | |         `-------> failed       (the service refuses it)
                           | `--replaced by a newer one of the same path: held, with its body
                           `-- flush again: a failed one is tried once more

Nothing else is possible. What is held or flushing when the power goes is held afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from satchel.errors import StateError


class UploadState(Enum):
    RECEIVED = "received"  # its bytes are being written here; the program has no answer
    HELD = "held"  # durable here, answered, not sent
    FLUSHING = "flushing"  # on its way; the service may have it or not
    CONFIRMED = "confirmed"  # the service has it
    CONFLICT = "conflict"  # the service has it as a conflict copy, beside somebody else's
    FAILED = "failed"  # the service refuses it; its bytes are still here


MOVES: dict[UploadState, frozenset[UploadState]] = {
    UploadState.RECEIVED: frozenset({UploadState.HELD}),
    UploadState.HELD: frozenset({UploadState.FLUSHING}),
    UploadState.FLUSHING: frozenset(
        {UploadState.HELD, UploadState.CONFIRMED, UploadState.CONFLICT, UploadState.FAILED}
    ),
    UploadState.FAILED: frozenset({UploadState.HELD}),
    UploadState.CONFIRMED: frozenset(),
    UploadState.CONFLICT: frozenset(),
}


@dataclass(frozen=True)
class Condition:
    """What was at the path when the upload was accepted: the file with that strong etag, or
    nothing where it is empty. The flush is refused where that has changed."""

    etag: str = ""

    def headers(self) -> dict[str, str]:
        """The HTTP header that makes the service look (RFC 9110, section 13.1)."""
        return {"If-Match": self.etag} if self.etag else {"If-None-Match": "*"}


@dataclass(frozen=True)
class Upload:
    """number: in order of acceptance, from 1; account: whose, a name or a digest; path: below the
    service, percent-encoded as the program wrote it; body: names its bytes in the spool; sha256:
    of them, hexadecimal; headers: those that go along; accepted: seconds since 1970; why: of a
    failure, or what it waits for; copy: path of the conflict copy; tries: flushes that were
    begun, so a condition that fails may be our own doing
    """

    number: int
    service: str
    account: str
    path: str
    body: str
    size: int
    sha256: str
    headers: tuple[tuple[str, str], ...]
    condition: Condition
    accepted: float
    state: UploadState = UploadState.RECEIVED
    why: str = ""
    copy: str = ""
    tries: int = 0

    def moved(self, state: UploadState, *, why: str = "", copy: str = "") -> Upload:
        """The same upload in that state. Raises StateError where it cannot get there."""
        if state not in MOVES[self.state]:
            raise StateError(
                f"upload {self.number} cannot become {state.value}", why=self.state.value
            )
        tries = self.tries + (state is UploadState.FLUSHING)
        return replace(self, state=state, why=why, copy=copy, tries=tries)

    @property
    def pending(self) -> bool:
        """The program takes it for done, and the service may not have it."""
        return self.state in (UploadState.HELD, UploadState.FLUSHING)
