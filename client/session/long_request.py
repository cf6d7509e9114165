# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A long request of a program: its pieces are operations, one after the other (replay/uploads.py).

Each waits for the first response to the one before, so the program is held back by the replica that
answers first. A request that does not come to its end is broken off in the log, and so at every
replica; where the client dies instead, the next operation does the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from client.session.answers import Answer
from client.session.journal import Encode
from client.session.session import Session
from replay import BROKEN_OFF, first_piece, upload_pieces
from satchel.errors import SatchelError


def upload(session: Session, head: Encode, body: Iterable[bytes]) -> Answer:
    """The response to a request with that head, whose body comes in blocks. Raises as
    `Session.call` does, and what `body` raises."""
    with session.alone():
        try:
            answer = session.call(lambda *moment: first_piece(head(*moment)))
            for piece in upload_pieces(body):
                answer = session.call(lambda *_, data=piece: data)
        except BaseException:
            with contextlib.suppress(SatchelError):
                session.call(lambda *_: BROKEN_OFF)
            raise
    return answer
