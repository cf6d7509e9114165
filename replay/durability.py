# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How soon what a log takes is on its medium. Apart from logs, as settings are read by commands
that have none."""

from typing import Literal

Durability = Literal["each", "interval", "off"]
"""When an append is on the medium: as it returns, within `interval_s`, or when the system likes."""
