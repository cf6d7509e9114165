# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The routes by which a replica comes to be on a surrogate."""

from __future__ import annotations

import enum


class Route(enum.Enum):
    """How a replica comes to be on a surrogate."""

    REPLAY = "replay"
    """From the checkpoint, with the operations since then executed again."""

    HANDOVER = "handover"
    """From the replica on another surrogate, as it is."""
