# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One notification on a person's desktop, by the bus of their session: the specification
org.freedesktop.Notifications, version 1.2.

Who has no desktop, or none that listens, is told nothing there; what is told is logged as well.
"""

from __future__ import annotations

import contextlib
import html
import logging
import time
from typing import Any

from jeepney import DBusAddress, DBusErrorResponse, MessageType, new_method_call
from jeepney.auth import AuthenticationError
from jeepney.io.blocking import DBusConnection, open_dbus_connection

logger = logging.getLogger(__name__)

NOTIFICATIONS = DBusAddress(
    "/org/freedesktop/Notifications",
    bus_name="org.freedesktop.Notifications",
    interface="org.freedesktop.Notifications",
)

ICON = "drive-removable-media"

REPLY_SECONDS = 5.0

REDRAW_SECONDS = 1.0
"""Between two notifications of progress."""

STAYS, AS_USUAL = 0, -1
"""How long it is shown: until the person sends it away, or as long as the desktop likes."""

NORMAL, CRITICAL = 1, 2

NO_BUS = (OSError, KeyError, ValueError, EOFError, TypeError, AuthenticationError)
"""What comes of a bus that is not there, is gone, or is none."""


class DesktopNotifier:
    """A notification that is shown, and replaced by the next one. One thread at a time."""

    def __init__(self, title: str) -> None:
        """title: plain text. Nothing is shown yet."""
        self._title, self._text = title, ""
        self._shown, self._drawn = 0, float("-inf")
        self._markup = False
        self._bus = self._connected()

    def tell(self, text: str, *, urgent: bool = False, percent: int | None = None) -> bool:
        """Show a line of plain text, with a bar where `percent` is given. What is urgent stays
        until the person sends it away. Return whether a desktop shows it."""
        if text != self._text:
            logger.info("%s: %s", self._title, text)
        self._text = text
        hints: dict[str, Any] = {"urgency": ("y", CRITICAL if urgent else NORMAL)}
        if percent is not None:
            hints["value"] = ("i", percent)
        body = html.escape(text, quote=False) if self._markup else text
        stays = STAYS if urgent or percent is not None else AS_USUAL
        given: tuple[Any, ...] = ("Satchel", self._shown, ICON, self._title, body, [], hints, stays)
        answer = self._ask("Notify", "susssasa{sv}i", given)
        if answer:
            self._shown = int(answer[0])
        return bool(answer)

    def progress(self, done: int, total: int) -> None:
        """A satchel.progress.Progress: the last text again, with a bar."""
        now = time.monotonic()
        if total <= 0 or now - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = now
        self.tell(self._text, percent=min(100, 100 * done // total))

    def close(self) -> None:
        """What is shown stays."""
        if self._bus:
            with contextlib.suppress(*NO_BUS):
                self._bus.close()
        self._bus = None

    def __enter__(self) -> DesktopNotifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self) -> DBusConnection | None:
        try:
            self._bus = open_dbus_connection(bus="SESSION")
        except NO_BUS as error:
            logger.debug("no desktop: %r", error)
            return None
        able = self._ask("GetCapabilities", None, ())
        self._markup = bool(able) and "body-markup" in able[0]
        return self._bus

    def _ask(self, method: str, signature: str | None, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The answer; empty where there is none."""
        if self._bus is None:
            return ()
        call = new_method_call(NOTIFICATIONS, method, signature, given)
        try:
            answer = self._bus.send_and_get_reply(call, timeout=REPLY_SECONDS)
            if answer.header.message_type is MessageType.error:
                raise DBusErrorResponse(answer)
        except (DBusErrorResponse, TimeoutError) as error:
            logger.info("no desktop shows notifications: %s", error)
        except NO_BUS as error:
            logger.info("the desktop is gone: %r", error)
            self._bus = None
        else:
            return tuple(answer.body)
        return ()
