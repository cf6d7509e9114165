# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How often a thread checks what it is not notified of."""

from __future__ import annotations

FAST_POLL_SECONDS = 0.05
"""The interval while an operation or a person waits for the result."""

POLL_SECONDS = 0.5
"""The interval of a thread that also waits for a notification."""

IDLE_POLL_SECONDS = 1.0
"""The interval for noticing that something is unused."""

PROGRESS_SECONDS = 0.2
"""How often a command asks for the progress of a long request."""
