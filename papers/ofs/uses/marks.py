# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a use says what it does now, so that a recording of its calls knows it."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MARK = "/satchel-bench/"
"""A program that asks whether MARK + "role/NAME" or MARK + "procedure/NAME" is there says which its
thread is, and what it does from now on; nothing is there. Threads and processes inherit both, and
so does what they execute."""


def role(name: str) -> None:
    """From now on this thread is one of that role."""
    os.access(f"{MARK}role/{name}", os.F_OK)


@contextlib.contextmanager
def procedure(name: str) -> Iterator[None]:
    """What is done in here, by this thread and by what it starts, is that procedure."""
    os.access(f"{MARK}procedure/{name}", os.F_OK)
    try:
        yield
    finally:
        os.access(f"{MARK}procedure/", os.F_OK)


def think(dice: random.Random, seconds: float) -> None:
    """As long as a person does: about so many seconds."""
    time.sleep(min(dice.expovariate(1 / seconds), 4 * seconds))


def main(prepare: Callable[[Path], None], use: Callable[[Path], None]) -> None:
    """The program of a use."""
    what, folder = sys.argv[1:]
    {"prepare": prepare, "use": use}[what](Path(folder).resolve())


__all__ = ["MARK", "main", "procedure", "role", "think"]
