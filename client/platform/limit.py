# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How much is believed of strangers that home has not confirmed: client.session.provisional."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from satchel.settings import SettingsError

UNLIMITED = "unlimited"

DEFAULT = "60s,20"

_BOUND = re.compile(r"([0-9]{1,9})(s?)")


@dataclass(frozen=True)
class Limit:
    """How long (seconds) and how many answers are believed that home has not confirmed."""

    seconds: float = math.inf
    operations: float = math.inf

    @classmethod
    def parse(cls, text: str) -> Limit:
        """`60s,20`; one of the two alone, the other is without a limit then; or `unlimited`.
        Raises SettingsError."""
        if text == UNLIMITED:
            return cls()
        found = [_BOUND.fullmatch(part.strip()) for part in text.split(",")]
        bounds = {m[2]: int(m[1]) for m in found if m}
        if len(bounds) != len(found) or len(found) > 2:
            raise SettingsError(
                f"provisional cannot be {text[:80]!r}",
                fix="say seconds and operations as in `60s,20`, one of them, or `unlimited`",
            )
        return cls(bounds.get("s", math.inf), bounds.get("", math.inf))

    def __str__(self) -> str:
        parts = [f"{self.seconds:g}s"] if self.seconds < math.inf else []
        parts += [f"{self.operations:g}"] if self.operations < math.inf else []
        return ",".join(parts) or UNLIMITED
