# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Before a program has begun, and when it has ended.

Imports take most of the 0.1 s of a short command, and a Ctrl-C that hits them must not print a
traceback. So this imports next to nothing, and comes first.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

INTERRUPTED = 128 + signal.SIGINT

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_at_signals(name: str) -> None:
    """From here on Ctrl-C and SIGTERM end the process at once, with a line and 130: nothing has to
    be put away. Those that are ignored stay so. Main thread only."""

    def end(signum: int, frame: object) -> NoReturn:
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(INTERRUPTED)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
