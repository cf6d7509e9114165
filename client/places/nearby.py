# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The surrogates that a client could go to: those announced on this network and those in
client.toml, and how near each is."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from client.places.here import announced_as
from client.platform.settings import ClientSettings
from wire import DiscoveredSurrogate, Peer, round_trip

AT_ONCE = 16


@dataclass(frozen=True)
class NearbySurrogate:
    """name: its announced name, or the one of client.toml; known: its name in client.toml, by its
    place or an announced fingerprint, or None;
    round_trip_seconds: None if it is not known or does not answer; announced: it is on this
    network, and says of itself what follows. None of that is proved."""

    name: str
    known: str | None
    address: str
    port: int
    round_trip_seconds: float | None
    announced: bool
    runs: tuple[str, ...] = ()
    load: int | None = None
    price: str = ""
    version: str = ""


def nearby(settings: ClientSettings, seen: Sequence[DiscoveredSurrogate]) -> list[NearbySurrogate]:
    """The nearest first, and last those that do not answer. Takes seconds: each known one is asked.

    An announcement is a stranger's word: nothing connects to an address because it names it.
    """
    places = {name: _place(peer) for name, peer in settings.surrogates.items()}
    pins = {name: announced_as(peer) for name, peer in settings.surrogates.items() if seen}
    announced = {
        next((at for at in one.places if at in places.values()), one.places[0]): one.announcement
        for one in seen
    }
    everywhere = list(dict.fromkeys([*announced, *places.values()]))
    if not everywhere:
        return []
    asked = list(dict.fromkeys(places.values()))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        times = dict(zip(asked, pool.map(lambda at: round_trip(*at), asked), strict=True))
    rows = []
    for at in everywhere:
        said = announced.get(at)
        here = [name for name, place in places.items() if place == at]
        here += [name for name, keys in pins.items() if said and keys.intersection(said.keys)]
        known = next(iter(here), None)
        rows.append(
            NearbySurrogate(
                name=said.name if said else known or "",
                known=known,
                address=at[0],
                port=at[1],
                round_trip_seconds=times.get(at),
                announced=said is not None,
                runs=said.runs if said else (),
                load=said.load if said else None,
                price=said.price if said else "",
                version=said.version if said else "",
            )
        )
    return sorted(
        rows, key=lambda row: (row.round_trip_seconds is None, row.round_trip_seconds or 0)
    )


def _place(peer: Peer) -> tuple[str, int]:
    """Address and port; the name where it has no address now."""
    host = peer.host
    with contextlib.suppress(OSError):
        host = str(socket.getaddrinfo(host, peer.port, type=socket.SOCK_STREAM)[0][4][0])
    return host, peer.port
