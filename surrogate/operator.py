# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who of those that reach the surrogate's own socket is its operator: whoever can read a file here.

A tenant has a socket of its own, and nothing there is the operator's. At the daemon's socket the
token in the run folder tells the operator from others of the account.
"""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from satchel.errors import AccessError
from satchel.files import write_durably

TOKEN = "operator.token"
"""In the run folder: 64 hex digits, mode 0600, others each time that the surrogate starts."""

HEADER = "Authorization"


class NotOperator(AccessError):
    """Only the operator may make this request."""


class Operator:
    """The token of one run. Any thread."""

    def __init__(self, run: Path) -> None:
        """Draw it. Raises OSError."""
        self._token = secrets.token_hex(32)
        write_durably(run / TOKEN, self._token.encode(), mode=0o600)

    def asks(self, said: str | None) -> bool:
        """Whether a request whose HEADER says that is the operator's."""
        sent = (said or "").encode("utf-8", "replace")
        return hmac.compare_digest(sent, f"Bearer {self._token}".encode())

    def require(self, said: str | None) -> None:
        """Raises NotOperator unless it `asks`."""
        if not self.asks(said):
            raise NotOperator(
                "only this surrogate's operator may see that",
                fix=f"send `{HEADER}: Bearer TOKEN` with what `{TOKEN}` in its run folder has",
            )


def credentials(run: Path) -> dict[str, str]:
    """The headers of the operator's requests to the surrogate that runs there. Raises OSError."""
    return {HEADER: f"Bearer {(run / TOKEN).read_text(encoding='ascii')}"}
