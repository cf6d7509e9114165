# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the model says that the interface does, from what uplink itself sends and receives."""

from __future__ import annotations

import threading
import time
from typing import Any

from uplink.policy import Interface, RadioModel, RadioState


class RadioWatch:
    """Two ledgers of the same traffic: as it was, and as it had been if each upload that was held
    had gone when its program asked. Joules are the model's. Any thread."""

    def __init__(self, model: RadioModel) -> None:
        self.model = model
        self._guard = threading.Lock()
        self._real = Interface(model)
        self._unheld = Interface(model)
        self._bytes = {"up": 0, "down": 0}
        self._held = 0

    def awake(self) -> bool:
        """Whether it is in use, or in its tail."""
        with self._guard:
            return self._real.state(time.monotonic()) is not RadioState.IDLE

    def transferred(self, began: float, up: int, down: int) -> None:
        """A request to a service is over. began: of time.monotonic()"""
        with self._guard:
            self._real.transfer(began, up=up, down=down)
            self._bytes["up"] += up
            self._bytes["down"] += down
            if not self._held:
                self._unheld.transfer(began, up=up, down=down)

    def held(self, size: int) -> None:
        """An upload was accepted that would have gone now."""
        with self._guard:
            self._unheld.transfer(time.monotonic(), up=size)

    def flushing(self, on: bool) -> None:
        """Uploads that `held` has counted already are being sent, or not any more."""
        with self._guard:
            self._held += 1 if on else -1

    def stats(self) -> dict[str, Any]:
        """For people and programs; `joules` are the model's, since the daemon began."""
        with self._guard:
            now = time.monotonic()
            real, unheld = self._real.settle(now), self._unheld.settle(now)
            saved = unheld.total - real.total
            return {
                "radio": self.model.name,
                "model_of": self.model.source,
                "state": self._real.state(now).value,
                "promotions": real.promotions,
                "model_joules": round(real.total, 3),
                "model_joules_unheld": round(unheld.total, 3),
                "model_joules_saved": round(saved, 3),
                "awake_seconds": round(real.awake_seconds, 3),
                "bytes_up": self._bytes["up"],
                "bytes_down": self._bytes["down"],
            }
