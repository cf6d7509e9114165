# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Operations on the service `notes`, each of which follows from its number alone."""

import json
import random

from replay import Operation, adapters
from satchel.ids import OperationNumber

TIME = 2_000_000_000 * 10**9
WORDS = [
    "pocket",
    "satchel",
    "river",
    "bread",
    "letter",
    "lamp",
    "window",
    "harbour",
    "stone",
    "garden",
]


def notebook(number: int) -> Operation:
    """The operation of that number: six in ten add, the others edit, delete, list and search."""
    choose = random.Random(number)
    note = {"title": choose.choice(WORDS), "text": " ".join(choose.choices(WORDS, k=60))}
    earlier = choose.randrange(1, number + 1)
    kind = choose.randrange(10)
    if kind < 6:
        return http(number, "POST", "/api/notes", note)
    if kind == 6:
        return http(number, "PUT", f"/api/notes/{earlier}", note)
    if kind == 7:
        return http(number, "DELETE", f"/api/notes/{earlier}")
    if kind == 8:
        return http(number, "GET", f"/api/notes?q={choose.choice(WORDS)}")
    return http(number, "GET", "/export")


def http(number: int, method: str, target: str, value: object = None) -> Operation:
    body = json.dumps(value).encode() if value is not None else b""
    time_ns, seed = TIME + number * 10**9, number * 7
    headers = [("Content-Type", "application/json")]
    payload = adapters.http.encode(
        method, target, headers, body, number=number, time_ns=time_ns, seed=seed
    )
    return Operation(OperationNumber(number), time_ns, seed, payload)
