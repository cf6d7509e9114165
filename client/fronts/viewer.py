# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One viewer at the local port: the server's half of RFB (RFC 6143), raw rectangles.

A viewer may choose 3.8, 3.7 or 3.3, which is what any other version that it names means (RFC 6143,
7.1.1 and appendix A). Raw is the one encoding that it need not ask for; of the others it may name
as many as it likes, and of them only the pointer's shape is made here.

There is no password: whoever runs programs on this device may use the service, as with the other
fronts. A web page cannot: its request is no RFB version, which ends the connection.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Protocol

from client.fronts.pixels import COLOUR_MAP, NATIVE, PixelFormat
from client.fronts.screen import Area, Screen
from replay.adapters import rfb
from satchel.errors import SatchelError, UsageError

VERSION = b"RFB 003.008\n"
SET_FORMAT, SET_ENCODINGS, ASK, CUT_TEXT = 0, 2, 3, 6
NO_SECURITY = 1
MAX_KEYS = 256
"""That a viewer holds down at once; of more than that the first one is let go."""
PIECE = 1 << 16
"""Of a clipboard that is passed over."""
MAX_CLIPBOARD = 64 << 20
"""Bytes. A larger one ends the connection: its length is taken for an error."""
TITLE = b"Satchel"


class SharedScreen(Protocol):
    """What a viewer needs of its desktop. changed: guards the screen, and is notified with it."""

    changed: threading.Condition
    ended: bool

    def screen(self) -> Screen:
        """The screen, as soon as there is one. Raises SatchelError."""

    def enter(self, event: bytes) -> None:
        """A key or pointer event."""


class Viewer:
    """A connection of an unmodified viewer, read in one thread and written in another."""

    def __init__(self, connection: socket.socket, desktop: SharedScreen) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._desktop = desktop
        self._format = NATIVE
        self._shapes = False
        self._colours_due = False
        self._wants: Area | None = None
        self._dirty: set[Area] = set()
        self._cursor: rfb.Rectangle | None = None
        self._keys: dict[int, None] = {}
        self._pointer = (0, 0, 0)
        self._gone = False

    def serve(self) -> None:
        """Until the viewer, or the desktop, is gone. What it holds down is let go then. Raises
        EOFError where the viewer ends it, UsageError where it says what is no message."""
        self._connection.sendall(VERSION)
        version = self._take(12)
        if not version.startswith(b"RFB "):
            return
        minor = _MINORS.get(version, 3)
        try:
            screen = self._desktop.screen()
        except SatchelError as error:
            reason = str(error).encode()
            none = bytes(4) if minor == 3 else b"\0"
            self._connection.sendall(none + struct.pack(">I", len(reason)) + reason)
            return
        if not self._admit(minor):
            return
        self._greet(screen)
        writer = threading.Thread(target=self._write, args=(screen,), daemon=True)
        writer.start()
        try:
            while not self._gone:
                self._read(screen)
        finally:
            with self._desktop.changed:
                self.leave()  # the writer may wait for a viewer that reads nothing
                self._desktop.changed.notify_all()
            writer.join()
            self._let_go()

    def leave(self) -> None:
        """End the connection; the viewer may make another one. Any thread: the writer sees it when
        the desktop has changed."""
        self._gone = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def note(self, areas: set[Area]) -> None:
        """These tiles have changed. Called with the desktop's lock."""
        self._dirty |= areas

    def _admit(self, minor: int) -> bool:
        """Security, which there is none of; whether the viewer goes without."""
        if minor == 3:
            self._connection.sendall(struct.pack(">I", NO_SECURITY))
            return True
        self._connection.sendall(bytes((1, NO_SECURITY)))
        agreed = self._take(1)[0] == NO_SECURITY
        if minor == 8 or not agreed:
            self._connection.sendall(struct.pack(">I", not agreed))
        if minor == 8 and not agreed:
            self._connection.sendall(struct.pack(">I", len(_NOT_OFFERED)) + _NOT_OFFERED)
        return agreed

    def _greet(self, screen: Screen) -> None:
        self._take(1)  # others may watch, whether or not it likes that
        head = struct.pack(">HH", screen.width, screen.height) + NATIVE.encode()
        self._connection.sendall(head + struct.pack(">I", len(TITLE)) + TITLE)

    def _read(self, screen: Screen) -> None:
        kind = self._take(1)[0]
        if kind in rfb.SIZES:
            self._enter(bytes([kind]) + self._take(rfb.SIZES[kind] - 1), screen)
        elif kind == SET_FORMAT:
            self._set_format(self._take(19)[3:])
        elif kind == SET_ENCODINGS:
            (count,) = struct.unpack(">xH", self._take(3))
            encodings = struct.unpack(f">{count}i", self._take(4 * count))
            with self._desktop.changed:
                self._shapes = rfb.CURSOR in encodings
        elif kind == ASK:
            incremental, *area = struct.unpack(">BHHHH", self._take(9))
            self._ask((area[0], area[1], area[2], area[3]), screen, incremental=bool(incremental))
        elif kind == CUT_TEXT:
            self._pass_over(abs(struct.unpack(">3xi", self._take(7))[0]))
        else:
            raise UsageError(f"a viewer says {kind}, which is not a message")

    def _pass_over(self, size: int) -> None:
        """Read a clipboard, which is not used: a desktop has its own. The extended clipboard's
        length is negative, and is the size all the same."""
        if size > MAX_CLIPBOARD:
            raise UsageError(f"a viewer's clipboard has {size} bytes", why=f"over {MAX_CLIPBOARD}")
        while size:
            size -= len(self._take(min(size, PIECE)))

    def _set_format(self, data: bytes) -> None:
        with self._desktop.changed:
            try:
                self._format = PixelFormat.decode(data)
            except SatchelError as error:
                raise UsageError(str(error)) from error
            self._colours_due = self._format.mapped
            self._cursor = None

    def _ask(self, area: Area, screen: Screen, *, incremental: bool) -> None:
        with self._desktop.changed:
            if not incremental:
                self._dirty |= {tile for tile in screen.areas if _meet(tile, area)}
            self._wants = _around(self._wants, area) if self._wants else area
            self._desktop.changed.notify_all()

    def _enter(self, event: bytes, screen: Screen) -> None:
        if event[0] == rfb.KEY_EVENT:
            _, down, keysym = rfb.KEY.unpack(event)
            self._keys.pop(keysym, None)
            if down:
                self._keys[keysym] = None
            self._desktop.enter(rfb.key(keysym, down=bool(down)))
            if len(self._keys) > MAX_KEYS:
                first = next(iter(self._keys))
                del self._keys[first]
                self._desktop.enter(rfb.key(first, down=False))
        else:
            _, buttons, x, y = rfb.POINTER.unpack(event)
            self._pointer = (min(x, screen.width - 1), min(y, screen.height - 1), buttons)
            self._desktop.enter(rfb.pointer(*self._pointer))

    def _let_go(self) -> None:
        for keysym in self._keys:
            self._desktop.enter(rfb.key(keysym, down=False))
        x, y, buttons = self._pointer
        if buttons:
            self._desktop.enter(rfb.pointer(x, y))

    def _write(self, screen: Screen) -> None:
        desktop = self._desktop
        try:
            while True:
                with desktop.changed:
                    desktop.changed.wait_for(lambda: self._over() or self._due(screen))
                    if self._over():
                        break
                    parts, form = self._parts(screen), self._format
                    colours = _COLOURS if self._colours_due else b""
                    self._colours_due = False
                self._connection.sendall(colours + _update(parts, form))
        except OSError:
            pass
        self.leave()  # the reader ends, too

    def _over(self) -> bool:
        return self._gone or self._desktop.ended

    def _due(self, screen: Screen) -> bool:
        wants = self._wants
        if wants is None:
            return False
        shape = self._shapes and screen.cursor is not self._cursor
        return shape or any(_meet(tile, wants) for tile in self._dirty)

    def _parts(self, screen: Screen) -> list[rfb.Rectangle]:
        """What the viewer asked for and has not seen."""
        assert self._wants is not None
        tiles = sorted(tile for tile in self._dirty if _meet(tile, self._wants))
        parts = [rfb.Rectangle(*tile, rfb.RAW, screen.content(tile)) for tile in tiles]
        if self._shapes and screen.cursor and screen.cursor is not self._cursor:
            parts.append(screen.cursor)
            self._cursor = screen.cursor
        self._dirty -= set(tiles)
        self._wants = None
        return parts

    def _take(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) != size:
            raise EOFError
        return data


_MINORS = {b"RFB 003.007\n": 7, b"RFB 003.008\n": 8}
_NOT_OFFERED = b"that security type was not offered"
_COLOURS = struct.pack(">BxHH", 1, 0, len(COLOUR_MAP) // 6) + COLOUR_MAP
"""RFB's SetColorMapEntries."""


def _update(parts: list[rfb.Rectangle], form: PixelFormat) -> bytes:
    """RFB's FramebufferUpdate."""
    made = [struct.pack(">BxH", 0, len(parts))]
    for part in parts:
        size = part.width * part.height * rfb.PIXEL
        made.append(
            rfb.RECTANGLE.pack(part.x, part.y, part.width, part.height, part.encoding)
            + form.convert(part.data[:size])
            + part.data[size:]
        )
    return b"".join(made)


def _around(one: Area, other: Area) -> Area:
    """What covers both: an answer may be one to several requests."""
    left, top = min(one[0], other[0]), min(one[1], other[1])
    right = max(one[0] + one[2], other[0] + other[2])
    bottom = max(one[1] + one[3], other[1] + other[3])
    return left, top, right - left, bottom - top


def _meet(tile: Area, area: Area) -> bool:
    across = tile[0] < area[0] + area[2] and area[0] < tile[0] + tile[2]
    return across and tile[1] < area[1] + area[3] and area[1] < tile[1] + tile[3]
