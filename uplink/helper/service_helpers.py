# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The services that home helps with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from satchel.errors import AccessError, NotFoundError
from uplink.helper.files import Files
from uplink.helper.settings import HelpedService
from uplink.helper.trees import HomeTrees
from uplink.policy import built_in_descriptions, read_description
from wire import Upstream, read_credentials


class NotHelped(NotFoundError):
    """Home has no credentials for a service of that name."""


class AnotherAccount(AccessError):
    """Home has credentials for another account of the service than the program's."""


class ServiceHelper:
    """One service. user: whose credentials home has"""

    def __init__(self, name: str, service: HelpedService, folder: Path) -> None:
        """Raises BadCredentials, NotFoundError for a description that is not there, OSError."""
        built_in = built_in_descriptions()
        if service.description not in built_in:
            raise NotFoundError(
                f"there is no description {service.description}", why=", ".join(built_in)
            )
        described = read_description(service.description, built_in[service.description])
        credentials = read_credentials(Path(service.credentials))
        self.user = credentials.user
        self._upstream = Upstream(name, service.url, service.certificates)
        self.trees = HomeTrees(self._upstream, credentials, described.deltas)
        self.files = Files(self._upstream, credentials, described, folder)

    def close(self) -> None:
        self.files.close()
        self._upstream.close()


class ServiceHelpers:
    """All of them. Any thread."""

    def __init__(self, services: Mapping[str, HelpedService], folder: Path) -> None:
        """folder: for files under way, made if it is not there. Raises as `ServiceHelper`."""
        if services:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._services = {
            name: ServiceHelper(name, each, folder) for name, each in services.items()
        }

    def close(self) -> None:
        for each in self._services.values():
            each.close()

    def said(self) -> list[str]:
        """What a person is to know: whose passwords home has."""
        return [f"has the password of {h.user} at {name}" for name, h in self._services.items()]

    def get(self, service: str) -> ServiceHelper:
        """Raises NotHelped."""
        if service not in self._services:
            raise NotHelped(
                f"home does not help with {service}", fix=f"add [uplink.{service}] to home.toml"
            )
        return self._services[service]

    def of_user(self, service: str, user: str) -> ServiceHelper:
        """Raises NotHelped, AnotherAccount."""
        found = self.get(service)
        if found.user != user:
            raise AnotherAccount(f"home has credentials of another account at {service}")
        return found
