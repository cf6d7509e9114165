# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A desktop: a batch of RFB input events, and what it changed on the screen.

The bytes are those of docs/formats/desktop.md. The service in the guest answers when the screen has
settled, with the tiles that differ from its last answer; a request may ask for the whole screen.
What it says before that, in early answers, is no part of the normalised response.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from replay.adapters.adapter import RequestTemplate
from replay.operations import Operation
from satchel.errors import IntegrityError, UsageError

kind = "rfb"

TILE = 64
PIXEL = 4
RAW = 0
CURSOR = -239
MAX_BATCH = 64 << 10
MAX_SIDE = 4096
MAX_SHAPE = 256
"""Pixels of a side of the pointer's shape."""

KEY = struct.Struct(">BBxxI")
POINTER = struct.Struct(">BBHH")
RECTANGLE = struct.Struct(">HHHHi")
KEY_EVENT, POINTER_EVENT = 4, 5
SIZES = {KEY_EVENT: KEY.size, POINTER_EVENT: POINTER.size}

_REQUEST = struct.Struct("<4sBBHI")
_ANSWER = struct.Struct("<4sBBHH32s")
_ASKS, _SAYS, _VERSION = b"SATD", b"SATS", 2
_WHOLE, _FAILED = 1, 128
_EARLY = struct.Struct("<4sI")
_EARLY_SAYS, _STANDS = b"SATE", b"SATL"
_MAX_UPDATE = (MAX_SIDE * MAX_SIDE * PIXEL) * 2
PIECE = 1 << 16
"""Bytes of pixels that are unpacked at a time where they are not kept."""

_KEYS = {"return": 0xFF0D, "escape": 0xFF1B, "home": 0xFF50, "end": 0xFF57, "ctrl": 0xFFE3}


class NotADesktop(IntegrityError):
    """The bytes are not an answer of a desktop."""


@dataclass(frozen=True)
class Rectangle:
    """A part of the screen. data: pixels in rows, blue, green, red and a byte of no meaning; of the
    pointer's shape (encoding CURSOR; x and y are its hot spot) pixels and a mask as in RFB."""

    x: int
    y: int
    width: int
    height: int
    encoding: int
    data: bytes


@dataclass(frozen=True)
class ScreenUpdate:
    """What an operation changed. whole: the rectangles cover the screen. failed: the service gave
    no answer, and what the screen shows is unknown. digest: see `screen_digest`."""

    width: int
    height: int
    digest: bytes
    whole: bool
    failed: bool
    rectangles: tuple[Rectangle, ...]


def encode(events: bytes, *, whole: bool) -> bytes:
    """The payload of an operation. events: RFB's KeyEvent and PointerEvent messages. Raises
    UsageError for other ones, and for too many."""
    count = sum(1 for _ in _split(events))
    if len(events) > MAX_BATCH:
        raise UsageError(f"{count} events are too many for one operation")
    flags = _WHOLE if whole else 0
    return _REQUEST.pack(_ASKS, _VERSION, flags, 0, len(events)) + events


def request(asked: RequestTemplate, *, number: int, time_ns: int, seed: int) -> bytes:
    """See `Adapter.request`: the body has a line for each event, `type TEXT`, `key NAME`, `key
    ctrl+X` or `click X Y`; without one the whole screen is asked for."""
    events = b"".join(_written(line) for line in asked.payload().decode().splitlines() if line)
    return encode(events, whole=not events)


def label(operation: Operation) -> str:
    """See `Adapter.label`: which kinds of events there are."""
    kinds = set(operation.payload[_REQUEST.size : _REQUEST.size + 1])
    names = {KEY_EVENT: "key", POINTER_EVENT: "pointer"}
    return " ".join(sorted(names.get(event, "?") for event in kinds)) or "look"


def normalise(response: bytes, operation: Operation) -> bytes:
    """See `Adapter.normalise`: when it has settled, the desktop is the same everywhere."""
    answer, at = _last_early(response)
    answer = answer if response[at:] == _STANDS else response[at:]
    try:
        check(answer)
    except NotADesktop:
        return _ANSWER.pack(_SAYS, _VERSION, _FAILED, 0, 0, bytes(32)) + zlib.compress(bytes(4))
    return answer


class DesktopPreviewReader:
    """See `adapters.PreviewReader`: of one raw response, of which each byte is looked at once."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def take(self, part: bytes) -> bytes:
        self._rest += part
        found, end = _last_early(self._rest)
        del self._rest[:end]
        return found


def decode(response: bytes) -> ScreenUpdate:
    """Takes a normalised response apart. From a peer it may be anything: NotADesktop."""
    parts: list[Rectangle] = []
    width, height, digest, flags = _read(response, parts)
    return ScreenUpdate(
        width, height, digest, bool(flags & _WHOLE), bool(flags & _FAILED), tuple(parts)
    )


def check(response: bytes) -> None:
    """Raise NotADesktop for what `decode` refuses. It keeps no pixels: a guest's answer of some
    kilobytes may unpack to 128 MiB."""
    _read(response, None)


def _read(response: bytes, parts: list[Rectangle] | None) -> tuple[int, int, bytes, int]:
    """Width, height, digest and flags. parts: gets the rectangles."""
    try:
        magic, version, flags, width, height, digest = _ANSWER.unpack_from(response)
        sides = flags == _FAILED or min(width, height) > 0
        if (magic, version) != (_SAYS, _VERSION) or max(width, height) > MAX_SIDE or not sides:
            raise NotADesktop("cannot read a desktop's answer", why="its head is not one")
        update = _UpdateReader(response[_ANSWER.size :])
        for rectangle in _rectangles(update, width, height, keep=parts is not None):
            if parts is not None:
                parts.append(rectangle)
        update.require_end()
    except (struct.error, zlib.error) as error:
        raise NotADesktop("cannot read a desktop's answer", why=str(error)) from error
    return width, height, digest, flags


class _UpdateReader:
    """A compressed update, unpacked as far as it is read. Methods raise NotADesktop, zlib.error."""

    def __init__(self, packed: bytes) -> None:
        self._unpacker, self._rest, self._left = zlib.decompressobj(), packed, _MAX_UPDATE

    def take(self, size: int) -> bytes:
        self._left -= size
        taken = bytearray()
        while len(taken) < size:
            piece = self._piece(size - len(taken) if self._left >= 0 else 0)
            if not piece:
                raise NotADesktop("cannot read a desktop's answer", why="a part is not whole")
            taken += piece
        return bytes(taken)

    def skip(self, size: int) -> None:
        while size > 0:
            size -= len(self.take(min(size, PIECE)))

    def require_end(self) -> None:
        if self._piece(1) or not self._unpacker.eof or self._unpacker.unused_data:
            raise NotADesktop("cannot read a desktop's answer", why="its length is wrong")

    def _piece(self, most: int) -> bytes:
        if self._unpacker.eof or most <= 0:
            return b""
        piece = self._unpacker.decompress(self._rest, most)
        self._rest = self._unpacker.unconsumed_tail
        return piece


def tiles(width: int, height: int) -> Iterator[tuple[int, int, int, int]]:
    """x, y, width and height of each tile of a screen, row by row."""
    for y in range(0, height, TILE):
        for x in range(0, width, TILE):
            yield x, y, min(TILE, width - x), min(TILE, height - y)


def screen_digest(tile_digests: list[bytes]) -> bytes:
    """The digest of a screen: SHA-256 over the SHA-256 of each tile's pixels, row by row."""
    return hashlib.sha256(b"".join(tile_digests)).digest()


def key(keysym: int, *, down: bool) -> bytes:
    """RFB's KeyEvent."""
    return KEY.pack(KEY_EVENT, down, keysym)


def pointer(x: int, y: int, buttons: int = 0) -> bytes:
    """RFB's PointerEvent."""
    return POINTER.pack(POINTER_EVENT, buttons, x, y)


def _last_early(response: bytes | bytearray) -> tuple[bytes, int]:
    """The last early answer that is whole in the beginning of a raw response, empty without one;
    and where it ends."""
    at, found = 0, slice(0)
    while response.startswith(_EARLY_SAYS, at) and at + _EARLY.size <= len(response):
        end = at + _EARLY.size + _EARLY.unpack_from(response, at)[1]
        if end > len(response):
            break
        found, at = slice(at + _EARLY.size, end), end
    return bytes(response[found]), at


def _rectangles(
    update: _UpdateReader, width: int, height: int, *, keep: bool
) -> Iterator[Rectangle]:
    """keep: with their pixels."""
    kind_of_message, count = struct.unpack(">BxH", update.take(4))
    for _ in range(count):
        x, y, across, down, encoding = RECTANGLE.unpack(update.take(RECTANGLE.size))
        size = across * down * PIXEL
        if encoding == CURSOR:
            size += (across + 7) // 8 * down
            if max(across, down) > MAX_SHAPE or x >= max(across, 1) or y >= max(down, 1):
                raise NotADesktop("cannot read a desktop's answer", why="its pointer is malformed")
        elif encoding != RAW or x + across > width or y + down > height:
            raise NotADesktop("cannot read a desktop's answer", why="a part is not on the screen")
        if keep:
            yield Rectangle(x, y, across, down, encoding, update.take(size))
        else:
            update.skip(size)
    if kind_of_message:
        raise NotADesktop("cannot read a desktop's answer", why="it is not an update")


def _split(events: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(events):
        size = SIZES.get(events[at], 0)
        if not size or at + size > len(events):
            raise UsageError("a batch has key and pointer events only")
        yield events[at : at + size]
        at += size


def _written(line: str) -> bytes:
    word, _, rest = line.partition(" ")
    try:
        if word == "type":
            return b"".join(_press([ord(letter)]) for letter in rest)
        if word == "key":
            return _press([_KEYS.get(name) or ord(name) for name in rest.split("+")])
        if word == "click":
            x, y = map(int, rest.split())
            return pointer(x, y) + pointer(x, y, 1) + pointer(x, y)
    except (TypeError, ValueError, struct.error) as error:
        raise UsageError(f"{line[:40]!r} is not an event", why=str(error)) from error
    raise UsageError(f"{line[:40]!r} is not an event")


def _press(keysyms: list[int]) -> bytes:
    downs = [key(keysym, down=True) for keysym in keysyms]
    return b"".join(downs + [key(keysym, down=False) for keysym in reversed(keysyms)])
