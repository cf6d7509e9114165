# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The table `[uplink]` of client.toml."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from satchel.names import check_name
from satchel.paths import cache_dir, config_dir, state_dir
from satchel.settings import require_numbers, require_service_url


@dataclass(frozen=True)
class UplinkService:
    """A service that programs use through uplink.

    url:          where it is, `https://` or `http://`, with the folder below which programs work
    description:  what its requests mean: a name in the folder `descriptions`, or one that comes
                  with Satchel
    certificates: a file of certificates that its TLS is verified by; empty: the system's
    credentials:  a file with `USER:PASSWORD`, by which uploads that waited go out after a restart
                  of the daemon; empty: they wait until a program of that account asks again
    home:         home helps: it has credentials for the account of its own, in home.toml
    unencrypted:  send the password of `credentials` to another host by http://
    """

    url: str = ""
    description: str = "webdav"
    certificates: str = ""
    credentials: str = ""
    home: bool = False
    unencrypted: bool = False

    def __post_init__(self) -> None:
        """Raises SettingsError, BadName."""
        require_service_url(self.url, password=bool(self.credentials), unencrypted=self.unencrypted)
        check_name(self.description, "description")


@dataclass(frozen=True)
class UplinkSettings:
    """The settings of uplink.

    port:             of 127.0.0.1, at which programs find it
    radio:            the model of the interface: `4g`, `3g`, `wifi`, or one of the file `radios`
    radios:           models of your own, as docs/formats/uplink.md has them
    descriptions:     a folder with descriptions of services of your own
    state:            uploads that are held
    cache:            answers that are kept
    deadline_minutes: after how long at most a held upload goes
    spool_mib:        MiB that held uploads may take; what is over goes at once
    cache_mib:        MiB that kept answers may take; the oldest goes first
    background:       programs whose uploads are always automatic, by name
    foreground:       programs whose uploads are always a person's
    services:         the services, by the name that programs put behind the port
    """

    port: int = 8034
    radio: str = "4g"
    radios: Path = field(default_factory=lambda: config_dir() / "radios.toml")
    descriptions: Path = field(default_factory=lambda: config_dir() / "services")
    state: Path = field(default_factory=lambda: state_dir() / "uplink")
    cache: Path = field(default_factory=lambda: cache_dir() / "uplink")
    deadline_minutes: float = 60.0
    spool_mib: int = 512
    cache_mib: int = 512
    background: tuple[str, ...] = ()
    foreground: tuple[str, ...] = ()
    services: dict[str, UplinkService] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises SettingsError for numbers, BadName for names that cannot be used."""
        require_numbers(
            self, positive=("deadline_minutes", "spool_mib"), not_negative=("cache_mib", "port")
        )
        for name in self.services:
            check_name(name, "service")
