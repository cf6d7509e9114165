# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How settings name a host with a daemon."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from satchel.paths import config_dir


@dataclass(frozen=True)
class Peer:
    """A host that is reached by OpenSSH, and where the daemon answers there.

    destination: `user@host`; port: of its sshd; identity: the private key; known_hosts: of whom
    we believe who they are, as OpenSSH has it; socket: of one without a destination, the path of
    the daemon's Unix socket on this host; trusted: of a surrogate: it may run carried services,
    whose answers nobody compares; connect_seconds: until its door must answer, more for a slow
    host; lost_seconds: of a surrogate: without an answer until a replica there is given up, more
    for a host whose daemon starts slowly
    """

    destination: str = ""
    port: int = 22
    identity: Path = field(default_factory=lambda: config_dir() / "id_ed25519")
    known_hosts: Path = field(default_factory=lambda: config_dir() / "known_hosts")
    socket: str = ""
    trusted: bool = False
    connect_seconds: float = 20.0
    lost_seconds: float = 10.0

    @property
    def host(self) -> str:
        """The name or address in the destination, without brackets."""
        return host_in(self.destination)

    @property
    def options(self) -> tuple[str, ...]:
        """More options for ssh, "Key=Value"."""
        return ()


@dataclass(frozen=True)
class MovedPeer(Peer):
    """A host that is reached elsewhere than the settings say. alias: the name under which
    `known_hosts` has its keys."""

    alias: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        return (f"HostKeyAlias={self.alias}",)


def host_in(destination: str) -> str:
    """The host of `user@host`, without the brackets that an address of IPv6 has there."""
    return destination.rpartition("@")[2].strip("[]")
