# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Answers to writes that wait for the log: given when it is durable, as many at once as came."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from shares.home.storage.write_log import WriteLog

_Answer = tuple[Callable[[], None], Callable[[OSError], None]]


class GroupCommit:
    """One thread, which waits for the disk. Thread-safe."""

    def __init__(self, log: WriteLog, name: str) -> None:
        self._log = log
        self._answers: queue.SimpleQueue[_Answer | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"log of {name}")
        self._thread.start()

    def when_durable(self, answer: Callable[[], None], failed: Callable[[OSError], None]) -> None:
        """Call `answer` when what the log has now is durable, `failed` where it cannot be."""
        self._answers.put((answer, failed))

    def close(self) -> None:
        """All answers that were asked for before have been given on return."""
        self._answers.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            answers = [self._answers.get()]
            while not self._answers.empty():
                answers.append(self._answers.get())
            problem = None
            try:
                self._log.sync()
            except OSError as error:
                problem = error
            for answer in answers:
                if answer is None:
                    return
                arrived, failed = answer
                if problem:
                    failed(problem)
                else:
                    arrived()
