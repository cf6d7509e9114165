# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The operation that benchmarks give to the service `notes`: one note more."""

import time

from replay import Operation
from replay.adapters import http
from satchel.ids import OperationNumber


def add_note(number: int, *, after_seconds: int = 0) -> Operation:
    """The operation of this number, as of now or of so much later."""
    now = time.time_ns() + after_seconds * 10**9
    body = b'{"title": "a note", "text": "number %d of the bench"}' % number
    headers = [("Content-Type", "application/json")]
    payload = http.encode("POST", "/api/notes", headers, body, number=number, time_ns=now, seed=1)
    return Operation(OperationNumber(number), now, 1, payload)
