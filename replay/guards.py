# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Guards inspect the bytes of a stream on their way, and may refuse them."""

from __future__ import annotations

from typing import Protocol

from satchel.errors import AccessError


class StreamRefused(AccessError):
    """The bytes of a program are refused. answer: the reply to the program, in its protocol;
    expected: the program did nothing wrong and must go to another address"""

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        fix: str = "",
        answer: bytes = b"",
        expected: bool = False,
    ) -> None:
        super().__init__(what, why=why, fix=fix)
        self.answer, self.expected = answer, expected


class Guard(Protocol):
    """Sees one stream. Called on the relay's thread, so it returns at once."""

    def to_guest(self, data: bytes) -> bytes:
        """What may go to the guest now of what the program said, and of what was held back before.
        Raises StreamRefused: nothing of `data` goes there, and the connection ends."""

    def to_program(self, data: bytes) -> bytes:
        """What the program gets now of what the guest said, and of what was held back before.
        data: empty at the guest's end"""

    def again(self) -> bytes | None:
        """What another machine is to be sent in place of all that the lost one was, so that the
        program notices nothing. None: that cannot be."""
