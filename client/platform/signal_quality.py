# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whether this device is about to leave: its Wi-Fi fades, or the way to a surrogate gets longer."""

from __future__ import annotations

from collections import deque
from pathlib import Path

WIRELESS = Path("/proc/net/wireless")

FAINT_DBM = -75.0
"""Below this a Wi-Fi of 802.11 falls back to its lowest rates, and then ends."""

GROWN = 3.0
"""How many times the shortest round trip of late the present one is, when a way gets longer."""

LEAST_SECONDS = 0.010
"""What a round trip has to be longer by: less is a busy host."""

KEPT = 20


def signal_dbm(wireless: Path = WIRELESS) -> float | None:
    """The strongest signal of this device's Wi-Fi; None without one that says it in dBm."""
    try:
        lines = wireless.read_text(encoding="ascii", errors="replace").splitlines()[2:]
    except OSError:
        return None
    found = []
    for line in lines:
        words = line.partition(":")[2].split()
        try:
            level = float(words[2].rstrip("."))
        except (IndexError, ValueError):
            continue
        if -120.0 <= level < 0.0:
            found.append(level)
    return max(found, default=None)


class SignalQuality:
    """Of the way to one surrogate. One thread uses it."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=KEPT)

    def leaving(self, round_trip: float | None, dbm: float | None) -> str:
        """Why the device seems to leave, for people, or ''. round_trip: in seconds, now; None: no
        answer; dbm: of `signal_dbm`."""
        if round_trip is None:
            return "nothing answers there any more" if self._times else ""
        shortest = min(self._times, default=round_trip)
        self._times.append(round_trip)
        if dbm is not None and dbm < FAINT_DBM:
            return f"the Wi-Fi is faint: {dbm:.0f} dBm"
        if round_trip > GROWN * shortest and round_trip - shortest > LEAST_SECONDS:
            return (
                f"the way there takes {1000 * round_trip:.0f} ms instead of {1000 * shortest:.0f}"
            )
        return ""
