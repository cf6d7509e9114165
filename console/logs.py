# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Logging is configured here, by programs, and nowhere else."""

from __future__ import annotations

import logging

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def log_to_stderr(*, verbose: bool) -> None:
    """One line per event on standard error; `verbose` adds what is of use to a developer."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, format=FORMAT)
    for chatty in ("httpx", "httpcore", "waitress.queue", "qemu.qmp", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
