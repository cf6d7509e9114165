# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The services of the settings, each with its description, which may change at any time."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from satchel.errors import NotFoundError
from uplink.gateway.radio_watch import RadioWatch
from uplink.gateway.settings import UplinkSettings
from uplink.policy import BadDescription, Description, built_in_descriptions, read_description
from wire import Upstream

logger = logging.getLogger(__name__)


class NoSuchService(NotFoundError):
    """The settings have no service of that name."""


class ServiceCatalog:
    """See the module. Any thread."""

    def __init__(self, settings: UplinkSettings, radio: RadioWatch) -> None:
        """Raises BadDescription, NotFoundError for a description that is not there, OSError."""
        self._settings = settings
        self._guard = threading.Lock()
        self._built_in = built_in_descriptions()
        self._read: dict[str, tuple[tuple[int, int], Description]] = {}
        self.upstreams = {
            name: Upstream(name, service.url, service.certificates, radio.transferred)
            for name, service in settings.services.items()
        }
        for name in settings.services:
            self.description(name)

    def close(self) -> None:
        for upstream in self.upstreams.values():
            upstream.close()

    def upstream(self, service: str) -> Upstream:
        """Raises NoSuchService."""
        if service not in self.upstreams:
            known = ", ".join(sorted(self.upstreams)) or "none"
            raise NoSuchService(
                f"there is no service {service}",
                why=f"known: {known}",
                fix="add it to client.toml: [uplink.services.NAME]",
            )
        return self.upstreams[service]

    def at(self, authority: str, path: str) -> str:
        """The service at HOST or HOST:PORT, a default port left out; of several, that whose folder
        the path is in. Raises NoSuchService."""
        found = [n for n, each in self.upstreams.items() if each.authority == authority.lower()]
        if not found:
            raise NoSuchService(
                f"there is no service at {authority}",
                fix="add it to client.toml: [uplink.services.NAME]",
            )
        inside = [name for name in found if is_below(path, self.upstreams[name].base)]
        return max(inside or found, key=lambda name: len(self.upstreams[name].base))

    def helped(self, service: str) -> bool:
        """Whether the settings say that home helps. Raises NoSuchService."""
        self.upstream(service)
        return self._settings.services[service].home

    def description(self, service: str) -> Description:
        """As its file is now. One that cannot be read any more leaves the last that could.

        Raises NoSuchService; BadDescription, NotFoundError where there was none before.
        """
        self.upstream(service)
        name = self._settings.services[service].description
        path = self._settings.descriptions / f"{name}.toml"
        stamp = _stamp(path)
        with self._guard:
            known = self._read.get(name)
            if known is not None and known[0] == stamp:
                return known[1]
            try:
                found = read_description(name, self._text(name, path))
            except (BadDescription, OSError, UnicodeDecodeError) as error:
                if known is None:
                    raise
                logger.warning("the description of %s stays as it was: %s", service, error)
                found = known[1]
            self._read[name] = stamp, found
            return found

    def _text(self, name: str, path: Path) -> str:
        if path.exists():
            return path.read_text("utf-8")
        if name not in self._built_in:
            known = ", ".join(self._built_in)
            raise NotFoundError(f"there is no description {name}", why=f"{known} come with Satchel")
        return self._built_in[name]


def is_below(path: str, folder: str) -> bool:
    """Whether an address's path is the folder, or in it."""
    return path.partition("?")[0] == folder or path.startswith((folder + "/", folder + "?"))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
