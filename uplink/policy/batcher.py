# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How long uploads are held, and why they are let go (StoArranger, section V-A).

Each upload that is added to a batch saves a promotion and a tail, rho T_pt. Beside what the bytes
themselves cost, that saving counts less the larger the batch is. The batch goes when adding to it
has become worth little.

Two slips of the print, which we do not follow. Formula 4 calls G the derivative dR/ds and gives it
as positive; R falls with s, so G is the magnitude of the derivative. Section VII gives the saving
as (E' - E)/E, which exceeds 1 for a good batch; what its Figure 5 shows is (E' - E)/E'.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from uplink.policy.radio import BITS_PER_MB, RadioModel

THRESHOLD_PER_MB = 0.022
"""Of G, for each 10^6 bytes. The paper does not print its own; this one reproduces its figures."""


class Reason(Enum):
    """Why a batch goes. The first four are conditions C1 to C4 of section V-A1."""

    ENOUGH = "enough"  # C1: growth fell below the threshold
    USER = "user"  # C2: a request of the user's own
    AWAKE = "awake"  # C3: the interface is awake anyway
    DEADLINE = "deadline"  # C4: it has waited for too long
    ASKED = "asked"  # somebody said `flush`
    ROOM = "room"  # the spool is full
    ORDER = "order"  # a request cannot go before it
    PLENTY = "plenty"  # the device is charging, or the connection is not metered


def per_mb(model: RadioModel, rate: float) -> float:
    """The paper's M = A + B/H (formula 4), for each 10^6 bytes.

    rate: H, megabits a second up; A = alpha/(rho T_pt), B = beta/(rho T_pt)
    """
    return model.up_watts(rate) / rate * BITS_PER_MB / model.overhead_joules


def growth_per_mb(model: RadioModel, size: int, rate: float) -> float:
    """Formula 4: G = M/(Ms + 1)^2 for each 10^6 bytes; the magnitude of dR/ds."""
    slope = per_mb(model, rate)
    return slope / (slope * size / 1e6 + 1) ** 2


@dataclass
class Batcher:
    """Decides when the held uploads go. One thread at a time.

    rate: megabits a second up, as it was of late; threshold: of the growth, for each 10^6 bytes;
    deadline: seconds that an upload waits at most
    """

    model: RadioModel
    rate: float
    threshold: float = THRESHOLD_PER_MB
    deadline: float = 3600.0

    def accepted(self, held: int, *, user: bool = False, awake: bool = False) -> Reason | None:
        """A new upload was added, and `held` bytes are in the batch now: why the batch goes, or
        None where it waits (Figure 1 of the paper)."""
        if user:
            return Reason.USER
        if awake:
            return Reason.AWAKE
        if growth_per_mb(self.model, held, self.rate) < self.threshold:
            return Reason.ENOUGH
        return None

    def waited(self, oldest: float, now: float) -> Reason | None:
        """The first upload of the batch came at `oldest`. If that is to come, a clock was ahead."""
        return None if 0 <= now - oldest < self.deadline else Reason.DEADLINE

    def sent(self, size: int, seconds: float) -> None:
        """Learn the rate from a burst. Small ones say more of round trips than of the rate."""
        if size >= 100_000 and seconds > 0:
            self.rate += 0.25 * (size / 1e6 * BITS_PER_MB / seconds - self.rate)
