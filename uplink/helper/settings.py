# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The tables `[uplink.NAME]` of home.toml."""

from __future__ import annotations

from dataclasses import dataclass

from satchel.names import check_name
from satchel.settings import SettingsError, require_service_url


@dataclass(frozen=True)
class HelpedService:
    """A cloud service that home asks for the mobile, with the account's password.

    url:          where it is, as client.toml has it
    credentials:  a file with `USER:PASSWORD` that only this user can read
    certificates: a file of certificates that its TLS is verified by; empty: the system's
    description:  what its requests mean: a name that comes with Satchel
    unencrypted:  send the password to another host by http://
    """

    url: str = ""
    credentials: str = ""
    certificates: str = ""
    description: str = "webdav"
    unencrypted: bool = False

    def __post_init__(self) -> None:
        """Raises SettingsError, BadName."""
        require_service_url(self.url, password=True, unencrypted=self.unencrypted)
        if not self.credentials:
            raise SettingsError("credentials must name a file with USER:PASSWORD")
        check_name(self.description, "description")
