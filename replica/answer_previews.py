# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a service says of its answers before they are whole, for those who want it at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

from replay import AnswerPreview, Response
from replay.adapters import PreviewReader
from replica.reader_thread import read_in_thread
from satchel.ids import OperationNumber


class AnswerPreviews:
    """Of one replica. Thread-safe."""

    def __init__(self, begin: Callable[[], PreviewReader] | None) -> None:
        """begin: makes what reads one response; None where the service tells nothing early."""
        self._begin = begin
        self._lock = threading.Lock()
        self._wanted: list[Callable[[AnswerPreview], None]] = []

    def parts(self, number: OperationNumber) -> Callable[[bytes], None] | None:
        """What takes the parts of that operation's raw response, where anybody listens."""
        if self._begin is None or not self._wanted:
            return None
        reader, last = self._begin(), b""

        def take(part: bytes) -> None:
            nonlocal last
            if (early := reader.take(part)) not in (b"", last):
                last = early
                with self._lock:
                    wanted = list(self._wanted)
                for tell in wanted:
                    tell(AnswerPreview(number, early))

        return take

    def before(self, responses: Iterator[Response]) -> Iterator[Response | AnswerPreview]:
        """These responses, as they come, and before each what its service says meanwhile. They are
        taken in a thread, to their end, also when nobody asks for the rest. Raises what they do."""
        said: queue.SimpleQueue[Response | AnswerPreview | Exception | None] = queue.SimpleQueue()

        with self._lock:
            self._wanted.append(said.put)
        try:
            read_in_thread(responses, said)
            while (item := said.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            with self._lock:
                self._wanted.remove(said.put)
