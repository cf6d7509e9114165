# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Responses are taken in a thread of their own, while something else is said of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from typing import Any


def read_in_thread(items: Iterable[Any], said: queue.SimpleQueue[Any]) -> None:
    """Have a thread put all of these into `said`, and at the end None, or the exception that they
    end with. They are taken to their end, also when nobody asks for the rest."""

    def take() -> None:
        try:
            for item in items:
                said.put(item)
            said.put(None)
        except Exception as error:  # raised where they are asked for
            said.put(error)

    threading.Thread(target=take, name="answers", daemon=True).start()
