# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The tables `[uplink.NAME]` of home.toml."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from satchel.names import check_name
from satchel.settings import SettingsError


@dataclass(frozen=True)
class HelpedService:
    """A cloud service that home asks for the mobile, with the account's password.

    url:          where it is, as client.toml has it
    credentials:  a file with `USER:PASSWORD`, which nobody else can read. Who has it has the
                  account
    certificates: a file of certificates that its TLS is verified by; empty: the system's
    description:  what its requests mean: a name that comes with Satchel
    """

    url: str = ""
    credentials: str = ""
    certificates: str = ""
    description: str = "webdav"

    def __post_init__(self) -> None:
        """Raises SettingsError, BadName."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise SettingsError("url must be https://HOST/FOLDER", why=f"it is {self.url!r}")
        if not self.credentials:
            raise SettingsError("credentials must name a file with USER:PASSWORD")
        check_name(self.description, "description")
