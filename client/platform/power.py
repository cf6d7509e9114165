# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What this device can afford now, and which transfers wait for better times.

Three services on the system's bus say it: NetworkManager (`Metered`), UPower (`OnBattery`) and
logind (`PrepareForSleep`). A device on which one of them is not there is taken for one that can
afford everything. A transfer asks before each of its pieces, so a change acts in the middle of it.

    now     operations, chunks that a machine stands still for, coherence    wait for nothing
    soon    the write log, deltas of carried services, uploads of uplink     wait while it sleeps
    later   pre-staging, checkpoints onto the medium                         wait as the owner says
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from jeepney import (
    DBusAddress,
    HeaderFields,
    MatchRule,
    Message,
    MessageType,
    message_bus,
    new_method_call,
)
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from console import NO_BUS
from satchel.polling import POLL_SECONDS

logger = logging.getLogger(__name__)

METERED, BATTERY = "metered", "battery"

REPLY_SECONDS = 5.0
AGAIN_SECONDS = 30.0
"""Until a bus that was not there is looked for again."""

SIGNALS_KEPT = 64
"""Each of them has all asked anew, so that one that is lost is no harm while another is kept."""

_YES, _NO = (1, 3), (2, 4)
"""Of NMMetered: yes, and guessed so; no, and guessed so."""


class Urgency(enum.Enum):
    """How soon a transfer goes. See the module."""

    NOW = "now"
    SOON = "soon"
    LATER = "later"


@dataclass(frozen=True)
class Means:
    """What the device is known to be. sleeping: it is about to, or it has not been awake again;
    plenty: a service has said that the connection is not metered, or that it is not on battery"""

    metered: bool = False
    battery: bool = False
    sleeping: bool = False
    plenty: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class _Property:
    """Of the one object of a service on the bus, whose interface has the service's name; what its
    values mean, and which of them says that there is plenty."""

    service: str
    name: str
    means: Callable[[Any], bool]
    plenty: Callable[[Any], bool]

    @property
    def address(self) -> DBusAddress:
        path = "/" + self.service.replace(".", "/")
        return DBusAddress(path, bus_name=self.service, interface=self.service)


_PROPERTIES = {
    METERED: _Property(
        "org.freedesktop.NetworkManager",
        "Metered",
        lambda value: value in _YES,
        lambda value: value in _NO,
    ),
    BATTERY: _Property(
        "org.freedesktop.UPower",
        "OnBattery",
        lambda value: value is True,
        lambda value: value is False,
    ),
}

_SLEEP = MatchRule(
    type="signal",
    sender="org.freedesktop.login1",
    interface="org.freedesktop.login1.Manager",
    member="PrepareForSleep",
    path="/org/freedesktop/login1",
)


class Power:
    """Follows the bus until `close`. Thread-safe."""

    def __init__(self, waits: Collection[str]) -> None:
        """waits: what transfers of LATER wait for the end of, METERED and BATTERY. Nothing is known
        yet; `ready` waits for that."""
        self._waits = frozenset(waits)
        self._changed = threading.Condition()
        self._means = Means()
        self._known = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="power", daemon=True)
        self._thread.start()

    def __enter__(self) -> Power:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def means(self) -> Means:
        return self._means

    def ready(self, seconds: float) -> bool:
        """Whether the bus has been asked, or is not there; waiting up to so many seconds."""
        return self._known.wait(seconds)

    def holds(self, urgency: Urgency) -> str:
        """Why such a transfer waits now, for people to read; empty: it does not."""
        means = self._means
        if urgency is Urgency.NOW:
            return ""
        if means.sleeping:
            return "the device goes to sleep"
        if urgency is Urgency.LATER and means.metered and METERED in self._waits:
            return "the connection is metered"
        if urgency is Urgency.LATER and means.battery and BATTERY in self._waits:
            return "the device is on battery"
        return ""

    def wait(self, urgency: Urgency, ending: threading.Event) -> None:
        """Return when such a transfer may go on, or has to end, half a second later at most."""
        with self._changed:
            while self.holds(urgency) and not ending.is_set() and not self._ended.is_set():
                self._changed.wait(POLL_SECONDS)

    def close(self) -> None:
        """End it, and whoever waits. Nothing happens the second time."""
        self._ended.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with closing(open_dbus_connection(bus="SYSTEM")) as bus:
                    self._follow(bus)
            except NO_BUS as error:
                logger.debug("no bus says what this device can afford: %r", error)
            self._learn(Means())
            self._known.set()
            self._ended.wait(AGAIN_SECONDS)

    def _follow(self, bus: DBusConnection) -> None:
        """Until the end, or the bus's. Raises NO_BUS."""
        rules = [_SLEEP]
        for each in _PROPERTIES.values():
            rules += [_changes(each.address), _comes_and_goes(each.address)]
        for rule in rules:
            bus.send_and_get_reply(message_bus.AddMatch(rule), timeout=REPLY_SECONDS)
        with bus.filter(MatchRule(type="signal"), bufsize=SIGNALS_KEPT) as signals:
            sleeping = False
            while not self._ended.is_set():
                found = {name: _asked(bus, each) for name, each in _PROPERTIES.items()}
                are = {name: each.means(found[name]) for name, each in _PROPERTIES.items()}
                plenty = any(each.plenty(found[name]) for name, each in _PROPERTIES.items())
                self._learn(Means(are[METERED], are[BATTERY], sleeping, plenty))
                self._known.set()
                signal = self._next(bus, signals)
                if signal is not None and _is_sleep(signal):
                    sleeping = signal.body[0] is True

    def _next(self, bus: DBusConnection, signals: Any) -> Message | None:
        while not self._ended.is_set():
            try:
                return bus.recv_until_filtered(signals, timeout=POLL_SECONDS)
            except TimeoutError:
                continue
        return None

    def _learn(self, means: Means) -> None:
        with self._changed:
            if means != self._means:
                logger.info("this device: %s", means)
            self._means = means
            self._changed.notify_all()


def _changes(address: DBusAddress) -> MatchRule:
    """Of its properties."""
    return MatchRule(
        type="signal",
        sender=address.bus_name,
        interface="org.freedesktop.DBus.Properties",
        member="PropertiesChanged",
        path=address.object_path,
    )


def _comes_and_goes(address: DBusAddress) -> MatchRule:
    """Of the service itself."""
    rule = MatchRule(type="signal", sender="org.freedesktop.DBus", member="NameOwnerChanged")
    rule.add_arg_condition(0, address.bus_name)
    return rule


def _is_sleep(signal: Message) -> bool:
    """Only what was asked for arrives here; the bus knows whose it is."""
    member = signal.header.fields.get(HeaderFields.member)
    return member == "PrepareForSleep" and len(signal.body) == 1


def _asked(bus: DBusConnection, wanted: _Property) -> Any:
    """What the service says; None where it is not there. Raises NO_BUS."""
    address = wanted.address
    about = DBusAddress(
        address.object_path,
        bus_name=address.bus_name,
        interface="org.freedesktop.DBus.Properties",
    )
    call = new_method_call(about, "Get", "ss", (address.interface, wanted.name))
    try:
        answer = bus.send_and_get_reply(call, timeout=REPLY_SECONDS)
    except TimeoutError:
        return None
    if answer.header.message_type is MessageType.error or len(answer.body) != 1:
        return None
    return answer.body[0][1]
