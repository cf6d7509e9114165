# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which port here leads to which port of a service, as `--port` and the recipe say it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from images import ServedPort
from satchel.errors import UsageError

PORT_LIMIT = 65535


@dataclass(frozen=True)
class LocalPort:
    """A port here for a port of the guest; None: for its first one."""

    local: int
    guest: int | None = None

    @classmethod
    def parse(cls, text: str) -> LocalPort:
        """Of LOCAL or LOCAL:GUEST. Raises UsageError."""
        local, colon, guest = text.partition(":")
        parts = [local, guest] if colon else [local]
        if not all(re.fullmatch("[0-9]{1,5}", part) for part in parts):
            raise _malformed(text)
        local_port, *guest_port = map(int, parts)
        if local_port > PORT_LIMIT or not all(1 <= port <= PORT_LIMIT for port in guest_port):
            raise _malformed(text)
        return cls(local_port, *guest_port)


def served(
    service: str, ports: Sequence[ServedPort], chosen: Iterable[LocalPort]
) -> list[ServedPort]:
    """The ports of a service, with the local ones that were chosen. Raises UsageError for one that
    the service does not have, and for one that is chosen twice."""
    found = {port.port: port for port in ports}
    first = next(iter(found))
    changed: dict[int, ServedPort] = {}
    for choice in chosen:
        guest = first if choice.guest is None else choice.guest
        if guest not in found:
            have = ", ".join(map(str, found))
            raise UsageError(f"{service} has no port {guest} in its guest", why=f"it has: {have}")
        if guest in changed:
            raise UsageError(f"port {guest} of {service} is chosen twice")
        changed[guest] = dataclasses.replace(found[guest], local=choice.local)
    return list((found | changed).values())


def only_local(service: str, chosen: Sequence[LocalPort]) -> int:
    """The local port of a service that is replayed, which has one; 0 for a free one. Raises
    UsageError."""
    if len(chosen) > 1 or any(choice.guest is not None for choice in chosen):
        raise UsageError(
            f"{service} has one port", why="it is replayed", fix="write --port LOCAL, once"
        )
    return chosen[0].local if chosen else 0


def _malformed(text: str) -> UsageError:
    return UsageError(f"{text[:80]!r} is no port", fix="write LOCAL, or LOCAL:PORT-IN-THE-GUEST")
