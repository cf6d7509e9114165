# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Surrogates announce themselves on their network by mDNS (DNS-SD), and clients listen.

What is announced is a stranger's word: anybody on the network may say anything. It tells where a
surrogate could be asked, and nothing that is believed. Who answers there proves itself by its host
key, as ever. docs/formats/pairing.md has the fields.

IPv4 addresses come first, then IPv6, then link-local IPv6. Link-local addresses travel without a
scope: a listener takes the interface on which it heard them, so they count only over IPv6.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from satchel.names import NAME
from wire.errors import printable

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, ServiceStateChange, Zeroconf

logger = logging.getLogger(__name__)

SERVICE = "_satchel._tcp.local."

REFRESH_SECONDS = 30.0
"""How often what is announced is looked at again."""

LISTEN_SECONDS = 2.0
"""How long to listen for those that are here: each answers within a second."""

RESOLVE_SECONDS = 2.0

SEEN_LIMIT = 256
"""Surrogates that are listed at most, whatever a network says."""

TEXT_LIMIT = 80

VERSION = 2
"""Of an announcement. 1 names no keys, and no version."""

KEYS_LIMIT = 4
"""Fingerprints in an announcement: one value has 255 bytes."""

ADDRESSES_LIMIT = 8

CONNECT_SECONDS = 2.0

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


@dataclass(frozen=True)
class Announcement:
    """What a surrogate says of itself. port: of its sshd; runs: accelerators, as in HostStatus;
    load: part of the memory for guests that is in use, in percent; price: for people; keys:
    fingerprints of its host keys, and of the authority that certifies them."""

    name: str
    port: int
    version: str = ""
    runs: tuple[str, ...] = ()
    load: int = 0
    price: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiscoveredSurrogate:
    """An announcement, and the addresses that it came with; there is one at least."""

    announcement: Announcement
    addresses: tuple[str, ...]

    @property
    def address(self) -> str:
        """The first of them."""
        return self.addresses[0]

    @property
    def places(self) -> list[tuple[str, int]]:
        """Each address, with the port of its sshd."""
        return [(address, self.announcement.port) for address in self.addresses]


class Announcer:
    """Announces from `start` until `close`, and again where what there is to say has changed.

    Never fails: a host without a network has nobody to tell, and that is logged.
    """

    def __init__(self, say: Callable[[], Announcement]) -> None:
        """say: what is true now; called by a thread of this object's."""
        self._say = say
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="announcing")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Say goodbye. Returns when the thread has ended."""
        self._closing.set()
        if self._thread.ident:
            self._thread.join()

    def _run(self) -> None:
        from zeroconf import Error  # it takes half a second, and asyncio

        while not self._closing.is_set():
            try:
                with contextlib.closing(_network()) as network:
                    self._announce(network)
            except (OSError, Error) as error:
                logger.warning("cannot announce this surrogate: %s", error)
                self._closing.wait(REFRESH_SECONDS)

    def _announce(self, network: Zeroconf) -> None:
        """Until the end, or until this host's addresses are others."""
        addresses, said = _own_addresses(), self._say()
        network.register_service(_info(said, addresses), allow_name_change=True)
        while not self._closing.wait(REFRESH_SECONDS):
            if _own_addresses() != addresses:
                return
            if (now := self._say()) != said:
                network.update_service(_info(now, addresses))
                said = now


class SurrogateListener:
    """Hears of the surrogates on this network, from its making until `close`. Thread-safe."""

    def __init__(self) -> None:
        """Raises OSError where there is no network."""
        from zeroconf import ServiceBrowser

        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._network = _network()
        ServiceBrowser(self._network, SERVICE, handlers=[self._on_change])

    def seen(self) -> list[DiscoveredSurrogate]:
        """Return the surrogates that are announced now, by name; well-formed and bounded, otherwise
        strangers' words. Names that lead to nothing cost RESOLVE_SECONDS together."""
        from zeroconf import ServiceInfo

        with self._lock:
            names = sorted(self._names)
        deadline, found = time.monotonic() + RESOLVE_SECONDS, list[DiscoveredSurrogate]()
        infos = [ServiceInfo(SERVICE, name) for name in names]
        known = [info.load_from_cache(self._network) for info in infos]
        for info, complete in zip(infos, known, strict=True):
            left = round(1000 * (deadline - time.monotonic()))
            if complete or (left > 0 and info.request(self._network, left)):
                found += [seen] if (seen := _seen(info)) else []
        return sorted(found, key=lambda seen: seen.announcement.name)

    def close(self) -> None:
        self._network.close()

    def _on_change(
        self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
    ) -> None:
        """Called by zeroconf, with these names, on its thread."""
        with self._lock:
            if state_change.name == "Removed":
                self._names.discard(name)
            elif len(self._names) < SEEN_LIMIT:
                self._names.add(name)


def surrogates_here(seconds: float = LISTEN_SECONDS) -> list[DiscoveredSurrogate]:
    """Who answers within so many seconds; nobody where there is no network."""
    try:
        with contextlib.closing(SurrogateListener()) as listener:
            time.sleep(seconds)
            return listener.seen()
    except OSError as error:
        logger.info("no network to look for surrogates on: %s", error)
        return []


def round_trip(host: str, port: int) -> float | None:
    """Seconds to that host and back, by the shortest of three TCP connections to its sshd; None
    where it does not answer. One that refuses has answered."""
    found: list[float] = []
    for _ in range(3):
        began = time.monotonic()
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except ConnectionRefusedError:
            pass
        except OSError:
            return min(found, default=None)
        found.append(time.monotonic() - began)
    return min(found)


def _info(said: Announcement, addresses: tuple[str, ...]) -> ServiceInfo:
    from zeroconf import ServiceInfo

    return ServiceInfo(
        SERVICE,
        f"{said.name}.{SERVICE}",
        port=said.port,
        parsed_addresses=list(addresses),
        server=f"{said.name}.local.",
        properties={
            "txtvers": str(VERSION),
            "version": said.version,
            "runs": ",".join(said.runs),
            "load": str(said.load),
            "price": said.price[:TEXT_LIMIT],
            "keys": ",".join(said.keys[:KEYS_LIMIT]),
        },
    )


def _seen(info: ServiceInfo) -> DiscoveredSurrogate | None:
    """Return None if it is malformed."""
    name = info.name.removesuffix(f".{SERVICE}")
    name, addresses = name.partition(" ")[0].lower(), _usable(info.parsed_scoped_addresses())
    if not NAME.fullmatch(name) or not addresses or not info.port:
        return None
    said = {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in info.properties.items()
        if value is not None
    }
    if said.get("txtvers", "1") not in ("1", str(VERSION)):
        return None
    texts = {key: printable(value, TEXT_LIMIT) for key, value in said.items()}
    load, keys = texts.get("load", ""), said.get("keys", "").split(",")[:KEYS_LIMIT]
    announcement = Announcement(
        name=name,
        port=info.port,
        version=texts.get("version", ""),
        runs=tuple(word for word in texts.get("runs", "").split(",") if word in ("kvm", "tcg")),
        load=min(100, int(load)) if load.isascii() and load.isdecimal() else 0,
        price=texts.get("price", ""),
        keys=tuple(key for key in keys if _FINGERPRINT.fullmatch(key)),
    )
    return DiscoveredSurrogate(announcement, addresses)


def _network() -> Zeroconf:
    """Return multicast by IPv4 and IPv6, or by IPv4 if this host lacks IPv6. Raises OSError if it
    has neither."""
    from zeroconf import IPVersion, Zeroconf

    try:
        return Zeroconf(ip_version=IPVersion.All)
    except OSError as error:
        logger.debug("no multicast by IPv6: %s", error)
        return Zeroconf()


def _usable(addresses: list[str]) -> tuple[str, ...]:
    """Return the addresses that another host can have, the most usual kind first."""
    found: dict[str, int] = {}
    for text in addresses:
        one = ipaddress.ip_address(text)
        if one.is_loopback or one.is_multicast or one.is_unspecified:
            continue
        if one.is_link_local and isinstance(one, ipaddress.IPv6Address) and not one.scope_id:
            continue
        found[text] = one.version + one.is_link_local
    return tuple(sorted(found, key=lambda text: found[text])[:ADDRESSES_LIMIT])


def _own_addresses() -> tuple[str, ...]:
    import ifaddr  # zeroconf brings it

    ips = [ip for adapter in ifaddr.get_adapters() for ip in adapter.ips]
    found = {str(ip.ip) if ip.is_IPv4 else str(ip.ip[0]) for ip in ips}
    return tuple(sorted(one for one in found if not ipaddress.ip_address(one).is_loopback))
