# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What machines at surrogates touched, on its way home.

Home's working sets follow what its own machine and rehearsals touch. Where the owner wishes it
(`teach`), a replica that ends at a surrogate is asked before what its machine has touched there,
and home learns that with the next checkpoint (replica.profile, the phase AWAY). What home cannot be
told now it is told when the next replica ends, the newest LIMIT of a session.
"""

from __future__ import annotations

import logging
from collections import deque

from client.places.home import Home
from client.places.surrogate import Surrogate
from satchel.errors import SatchelError, UnavailableError
from wire import TouchReport

logger = logging.getLogger(__name__)

LIMIT = 8
RUNS = 1 << 13
"""Of a volume: as many runs as a profile has. The first that were touched count."""

SECONDS = 4.0
"""How long a surrogate or home may take to answer."""


class Lessons:
    """Of one session. Not thread-safe. Nothing here fails, and without `home` nothing is done."""

    def __init__(self, home: Home | None) -> None:
        """home: of a session whose owner wishes that it learns."""
        self._home = home
        self._kept: deque[TouchReport] = deque(maxlen=LIMIT)

    def ask(self, endpoint: Surrogate) -> None:
        """Before that replica ends, while its surrogate answers."""
        if self._home is None:
            return
        try:
            found = TouchReport.from_json(endpoint.ask("touched", SECONDS))
        except SatchelError as error:
            logger.info("nothing is learnt of what the replica touched: %s", error)
            return
        runs = {volume: numbers[: 2 * RUNS] for volume, numbers in found.touched.items()}
        if any(runs.values()):
            self._kept.append(TouchReport(runs))

    def send(self) -> None:
        """Tell home."""
        if self._home is None:
            return
        while self._kept:
            try:
                self._home.teach(self._kept[0], SECONDS)
            except UnavailableError as error:
                logger.info("home is told later what machines touched: %s", error)
                return
            except SatchelError as error:
                logger.info("home does not take what a machine touched: %s", error)
            self._kept.popleft()
