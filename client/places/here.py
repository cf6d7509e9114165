# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session listens to announcements: it finds its surrogates at new addresses, and unknown ones.

If a surrogate is not at its written address, it may be announced at another one, by the fingerprint
of its host key or of its site's authority. Every attacker on the network can copy a fingerprint. So
this client tries such an address before links go there: its sshd must show a key from known_hosts.
By a copy an attacker gets one connection in TRY_AGAIN_SECONDS at each of TRIES_LIMIT addresses, and
learns that this client knows that surrogate.

If none of a surrogate's keys is known, `auto = "ask"` offers it to the person, once. Nothing
connects to it: pairing needs a code.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from client.platform.settings import ClientSettings
from satchel.errors import SatchelError, UnavailableError
from satchel.files import write_lines
from wire import (
    DiscoveredSurrogate,
    HostKeyMismatch,
    MovedPeer,
    Peer,
    SshHost,
    SshLink,
    SurrogateListener,
    WrongKey,
    aliased_lines,
    known_fingerprints,
    round_trip,
)

logger = logging.getLogger(__name__)

LOOK_SECONDS = 3.0

TRY_AGAIN_SECONDS = 600.0
"""How long an address is left alone that was tried."""

TRIES_LIMIT = 16
"""Addresses that are tried in that time."""

TRY_SECONDS = 5.0

OFFERS_LIMIT = 16
"""Unknown surrogates that one session tells of, whatever a network says."""

Place = tuple[str, int]
"""Address and port."""


@dataclass(frozen=True)
class PairingOffer:
    """An unknown surrogate that is announced here. All of it is a stranger's word."""

    name: str
    address: str
    port: int
    runs: str
    price: str


class SurrogatesHere:
    """The announcements that one session hears. Thread-safe. Call `start`, then `close`; it listens
    only between them."""

    def __init__(self, settings: ClientSettings, folder: Path) -> None:
        """folder: for known_hosts files under other names; need not exist"""
        self._settings, self._folder = settings, folder
        self._lock = threading.Lock()  # guards the next three
        self._moved: dict[str, MovedPeer] = {}
        self._offered: dict[Place, PairingOffer] = {}
        self._here: set[Place] = set()
        self._pins = {name: frozenset[str]() for name in settings.surrogates}
        self._tried: dict[Place, tuple[float, bool]] = {}
        self._trying: SshLink | None = None
        self._listener: SurrogateListener | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, tell: Callable[[str], None], rests: Callable[[], bool]) -> None:
        """Listen from now on, unless the settings give nothing to look for. tell: gets one line for
        the person; rests: whether the session is parked. Both return soon."""
        if self._settings.surrogates or self._settings.auto == "ask":
            self._thread = threading.Thread(
                target=self._run, args=(tell, rests), name="here", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Listen no more. Returns when the thread has ended; never fails."""
        self._closing.set()
        if trying := self._trying:
            trying.close(gone=True)
        if self._thread:
            self._thread.join()

    def reached(self, peer: Peer) -> Peer:
        """Return the host where it is reached now: as it is written, unless it was found elsewhere.
        Returns at once."""
        with self._lock:
            for name, moved in self._moved.items():
                if self._settings.surrogates[name] == peer:
                    return moved
        return peer

    def status(self) -> dict[str, Any]:
        """Return the rows of `satchel status` and the page. found: known surrogates at new
        addresses; offers: unknown ones that are announced now."""
        with self._lock:
            found = [
                {"surrogate": name, "address": moved.host, "port": moved.port}
                for name, moved in sorted(self._moved.items())
            ]
            offers = [asdict(row) for at, row in self._offered.items() if at in self._here]
        return {"found": found, "offers": offers}

    def _run(self, tell: Callable[[str], None], rests: Callable[[], bool]) -> None:
        said = ""
        while not self._closing.wait(LOOK_SECONDS):
            try:
                if not rests():
                    self.look(self._listen().seen(), tell)
                else:
                    self._hush()
            except (SatchelError, OSError) as error:
                if str(error) != said:
                    logger.info("surrogates here are not looked for: %s", error)
                said = str(error)
        self._hush()

    def _listen(self) -> SurrogateListener:
        self._listener = self._listener or SurrogateListener()
        return self._listener

    def _hush(self) -> None:
        if self._listener:
            self._listener.close()
        self._listener = None

    def look(self, seen: Sequence[DiscoveredSurrogate], tell: Callable[[str], None]) -> None:
        """Find surrogates among the present announcements. Takes seconds if it tries an address.
        One thread at a time; `start` begins one. Raises UnsupportedError."""
        known: set[Place] = set()
        pins: set[str] = set()
        for name, peer in self._settings.surrogates.items():
            if peer.destination:
                mine = self._pinned(name, peer)
                pins |= mine
                said = [one for one in seen if mine.intersection(one.announcement.keys)]
                written = _written(peer) if said or self._settings.auto == "ask" else set()
                known |= written
                self._locate(name, [place for one in said for place in one.places], written, tell)
        if self._settings.auto == "ask":
            others = (one for one in seen if not pins.intersection(one.announcement.keys))
            self._offer([one for one in others if not known.intersection(one.places)], tell)

    def _pinned(self, name: str, peer: Peer) -> frozenset[str]:
        """The fingerprints by which a known surrogate can be announced."""
        if not self._pins[name]:
            self._pins[name] = announced_as(peer)
        return self._pins[name]

    def _locate(
        self, name: str, places: list[Place], written: set[Place], tell: Callable[[str], None]
    ) -> None:
        """Find out where a known surrogate is that is announced at these places, if anywhere."""
        peer, moved = self._settings.surrogates[name], self._moved.get(name)
        if not places or written.intersection(places):
            self._put(name, None)
            return
        if moved and (moved.host, moved.port) in places and _answers(moved):
            return
        if moved is None and _answers(peer) and self._is_there(peer, (peer.host, peer.port)):
            return
        for place in dict.fromkeys(places):
            there = self._moved_to(name, peer, place)
            if (there != moved or _answers(there)) and self._is_there(there, place):
                self._put(name, there)
                tell(f"{name} is at {place[0]} port {place[1]} now, by its host key")
                return
        self._put(name, None)

    def _put(self, name: str, moved: MovedPeer | None) -> None:
        with self._lock:
            if moved:
                self._moved[name] = moved
            else:
                self._moved.pop(name, None)

    def _moved_to(self, name: str, peer: Peer, place: Place) -> MovedPeer:
        user = peer.destination.rpartition("@")[0]
        values = {field.name: getattr(peer, field.name) for field in fields(Peer)}
        values["destination"] = f"{user}@{place[0]}" if user else place[0]
        values |= {"port": place[1], "known_hosts": self._folder / f"{name}.known_hosts"}
        return MovedPeer(**values, alias=peer.host)

    def _is_there(self, peer: Peer, place: Place) -> bool:
        """Whether a host with this peer's keys answers there, as was found out in the last
        TRY_AGAIN_SECONDS or now."""
        now = time.monotonic()
        recent = {
            at: found for at, found in self._tried.items() if now - found[0] < TRY_AGAIN_SECONDS
        }
        self._tried = recent
        if place in recent:
            return recent[place][1]
        if len(recent) >= TRIES_LIMIT:
            return False
        there = self._proves(peer)
        self._tried[place] = (now, there)
        return there

    def _proves(self, peer: Peer) -> bool:
        host = SshHost.of("surrogate", peer)
        if isinstance(peer, MovedPeer):
            name = peer.known_hosts.name.removesuffix(".known_hosts")
            own = self._settings.surrogates[name]
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lines = aliased_lines(own.known_hosts, own.host, own.port, peer.alias)
            write_lines(peer.known_hosts, lines, mode=0o600)
        try:
            self._trying = SshLink.start(host, connect_timeout=TRY_SECONDS)
            if self._closing.is_set():
                raise UnavailableError("the session ends")
            self._trying.wait_ready(TRY_SECONDS)
        except WrongKey:
            return True  # it is the right host, and links say why it refuses
        except HostKeyMismatch as error:
            logger.warning("%s port %d is announced with another's key: %s", *_at(peer), error)
            return False
        except SatchelError as error:
            logger.info("%s port %d: %s", *_at(peer), error)
            return False
        finally:
            if self._trying:
                self._trying.close()
            self._trying = None
        return True

    def _offer(self, unknown: list[DiscoveredSurrogate], tell: Callable[[str], None]) -> None:
        with self._lock:
            self._here = {one.places[0] for one in unknown}
        for one in unknown:
            said, (address, port) = one.announcement, one.places[0]
            if (address, port) in self._offered or len(self._offered) >= OFFERS_LIMIT:
                continue
            offer = PairingOffer(said.name, address, port, ",".join(said.runs), said.price)
            with self._lock:
                self._offered[(address, port)] = offer
            price = f" ({said.price})" if said.price else ""
            tell(
                f"a Satchel surrogate is here: pair? It calls itself {said.name}{price}. If you "
                f"trust its operator, ask for a code, then `satchel pair CODE --at {address}`"
            )


def announced_as(peer: Peer) -> frozenset[str]:
    """Return the fingerprints by which a surrogate of client.toml can be announced: of the keys and
    the authorities that its known_hosts has. Raises UnsupportedError."""
    found = known_fingerprints(peer.known_hosts, peer.host, peer.port, authorities=True)
    return frozenset(found)


def _at(peer: Peer) -> Place:
    return peer.host, peer.port


def _answers(peer: Peer) -> bool:
    return round_trip(peer.host, peer.port) is not None


def _written(peer: Peer) -> set[Place]:
    """The places that client.toml names; the name alone where it has no address now."""
    found = {(peer.host, peer.port)}
    with suppress(OSError):
        every = socket.getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)
        found |= {(str(each[4][0]), peer.port) for each in every}
    return found
