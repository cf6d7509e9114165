# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a service says of its answers before they are whole, for those who want it at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

from replay import Early, Response


class EarlyAnswers:
    """Of one replica. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: list[Callable[[Early], None]] = []

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return bool(self._wanted)

    def tell(self, early: Early) -> None:
        """Tell everybody who listens."""
        with self._lock:
            wanted = list(self._wanted)
        for told in wanted:
            told(early)

    def before(self, responses: Iterator[Response]) -> Iterator[Response | Early]:
        """These responses, as they come, and before each what its service says meanwhile. They are
        taken in a thread, to their end, also when nobody asks for the rest. Raises what they do."""
        said: queue.SimpleQueue[Response | Early | Exception | None] = queue.SimpleQueue()

        def take() -> None:
            try:
                for response in responses:
                    said.put(response)
                said.put(None)
            except Exception as error:  # raised where they are asked for
                said.put(error)

        with self._lock:
            self._wanted.append(said.put)
        try:
            threading.Thread(target=take, name="answers", daemon=True).start()
            while (item := said.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            with self._lock:
                self._wanted.remove(said.put)
