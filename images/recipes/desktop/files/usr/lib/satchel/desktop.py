# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A desktop whose screen is a function of the operations: Xvnc, twm, NEdit.

An operation is a batch of RFB input events, its answer the parts of the screen that differ from the
last answer (docs/formats/desktop.md). What makes two replicas show the same:

- One event at a time: the next one is sent when nothing else in this machine runs, so that what a
  program finds (where is the pointer now?) is not told by how fast it is.
- The screen is taken when it has settled: for QUIET seconds no program of the desktop has run, none
  waits for a disk, and the X server had nothing to send. What is answered are tiles that differ,
  whose content is that of this moment: how often they were drawn before does not matter.
- The X server's clock stands at the operation's time (replay/agent/preload.cc), so two clicks are a
  double click by the log and not by the speed of a replica. Keys do not repeat: a viewer does that.
- No program has a timer that a user sees: desktop.resources turns off what blinks and pops up.
- The pointer's picture is not on the screen; its shape goes along when it changes.

What is drawn before that is told as well, in early answers: each is what the answer would be if the
screen had settled. They are for eyes only and compared with nothing. The answer is made while the
screen settles, so mostly it is the last early one, and that is all that is said then.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import os
import select
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

WIDTH, HEIGHT = 1024, 768
TILE = 64
PIXEL = 4
STRIDE = WIDTH * PIXEL
ACROSS = -(-WIDTH // TILE)
TILES = ACROSS * -(-HEIGHT // TILE)

QUIET = 0.06
"""Seconds; several times what the X server waits before it sends what was drawn."""
STEP = 0.001
CALM = QUIET / 4
"""Seconds without anything to do after which an answer is made, in the hope that it will stand."""
EARLY = 0.2
"""Seconds before what is drawn so far is told of a desktop that is busy, and again, ..."""
EARLY_SHARE = 4
"""... if that is so many times what it took to make the last early answer."""
SETTLED_WITHIN = 20.0
"""A desktop that never settles is answered for as it is then; replicas may differ. Seconds alone do
not say that it is one: a machine that waits for its memory, or for a processor, does nothing while
another replica goes on. So there are also as many looks as a machine with both has time for."""
REST_LOOKS = 5000
SETTLE_LOOKS = 1300
STARTED_WITHIN = 120.0

REQUEST = struct.Struct("<4sBBHI")
VERSION = 2
ANSWER = struct.Struct("<4sBBHH32s")
EARLY_ANSWER = struct.Struct("<4sI")
STANDS = b"SATL"
NOTHING = 4
"""Bytes of an update without rectangles."""
WHOLE = 1
BATCH_LIMIT = 64 << 10

RAW, CURSOR = 0, -239
FORMAT = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
"""Blue, green, red, nothing: how the X server has it."""

HERE = Path(__file__).resolve().parent
PLACE = Path("/tmp/desktop")
SCREEN = ":0"
SERVER = [
    *("Xvnc", SCREEN, "-geometry", f"{WIDTH}x{HEIGHT}", "-depth", "24"),
    *("-rfbunixpath", str(PLACE / "rfb"), "-rfbport", "-1", "-SecurityTypes", "None"),
    *("-AcceptSetDesktopSize=0", "-SendCutText=0", "-AcceptCutText=0", "-FrameRate=60"),
    *("-nolisten", "tcp", "-extension", "GLX", "-s", "0", "-r", "-ac", "-br"),
]
PROGRAMS = [
    ["twm", "-f", str(HERE / "desktop.twmrc")],
    ["nedit", "-geometry", "80x36+24+24"],
]
LETTER = "Dear reader,\n\n" + "".join(
    f"this is line {number} of a letter that is carried around in a pocket.\n"
    for number in range(1, 25)
)


class Machine:
    """Whether anything but this process runs here."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become ours
        self._stat = os.open("/proc/stat", os.O_RDONLY)

    def idle(self) -> bool:
        """Nobody else is running, ready to run, or waiting for a disk."""
        text = os.pread(self._stat, 64 << 10, 0)
        running = int(text[text.rindex(b"procs_running") + 14 :].split(None, 1)[0])
        blocked = int(text[text.rindex(b"procs_blocked") + 14 :].split(None, 1)[0])
        return running == 1 and blocked == 0

    def runs(self) -> list[tuple[int, bytes]]:
        """Every program of the desktop, and how often it was given the processor."""
        return [(pid, _read(f"/proc/{pid}/schedstat")) for pid in _below(os.getpid())]

    def reap(self) -> None:
        """Ended programs are forgotten."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


class Screen:
    """What the X server shows, as an RFB client of it; for one thread."""

    def __init__(self, path: Path) -> None:
        self.pixels = bytearray(STRIDE * HEIGHT)
        self.drawn = True  # since the last look
        self._touched: set[int] = set(range(TILES))
        self._cursor = b""
        self._digests = [b""] * TILES
        self._told: tuple[list[bytes], bytes] = [b""] * TILES, b""
        self._socket = _connected(path)
        self._greet()

    def send(self, message: bytes) -> None:
        self._socket.sendall(message)

    def receive(self, seconds: float) -> bool:
        """Take in what the X server has sent, waiting that long for something; whether it had."""
        if not select.select([self._socket], [], [], seconds)[0]:
            return False
        (kind,) = self._take(1)
        if kind == 0:
            for _ in range(struct.unpack(">xH", self._take(3))[0]):
                self._rectangle(*struct.unpack(">HHHHi", self._take(12)))
            self._ask()
        elif kind == 1:
            self._take(5 + 6 * struct.unpack(">x2xH", self._take(5))[0])
        elif kind == 3:
            self._take(abs(struct.unpack(">3xi", self._take(7))[0]))
        return True

    def differences(self, *, whole: bool) -> tuple[bytes, bytes]:
        """The digest of the screen, and as an RFB message what differs from the last answer."""
        for tile in self._touched:
            self._digests[tile] = hashlib.sha256(self._content(tile)).digest()
        self._touched.clear()
        self.drawn = False
        told, cursor = self._told
        parts = []
        for tile in range(TILES):
            if whole or self._digests[tile] != told[tile]:
                parts.append(struct.pack(">HHHHi", *_area(tile), RAW) + self._content(tile))
        if self._cursor != cursor or whole:
            parts.append(self._cursor)
        digest = hashlib.sha256(b"".join(self._digests)).digest()
        return digest, struct.pack(">BxH", 0, len(parts)) + b"".join(parts)

    def told(self) -> None:
        """What the last look found is what the next answer is told from."""
        self._told = list(self._digests), self._cursor

    def _greet(self) -> None:
        self._take(12)
        self.send(b"RFB 003.008\n")
        self._take(self._take(1)[0])
        self.send(b"\1")
        self._take(4)
        self.send(b"\1")
        width, height = struct.unpack(">HH16x", self._take(20))
        self._take(struct.unpack(">I", self._take(4))[0])
        assert (width, height) == (WIDTH, HEIGHT)
        self.send(b"\0\0\0\0" + FORMAT + struct.pack(">BxHii", 2, 2, RAW, CURSOR))
        self._ask(incremental=0)

    def _ask(self, incremental: int = 1) -> None:
        self.send(struct.pack(">BBHHHH", 3, incremental, 0, 0, WIDTH, HEIGHT))

    def _rectangle(self, x: int, y: int, width: int, height: int, encoding: int) -> None:
        head = struct.pack(">HHHHi", x, y, width, height, encoding)
        if encoding == CURSOR:
            self._cursor = head + self._take(width * height * PIXEL + (width + 7) // 8 * height)
            self.drawn = True
            return
        assert encoding == RAW
        data, size = memoryview(self._take(width * height * PIXEL)), width * PIXEL
        for row in range(height):
            start = (y + row) * STRIDE + x * PIXEL
            self.pixels[start : start + size] = data[row * size : (row + 1) * size]
        for down in range(y // TILE, -(-(y + height) // TILE)):
            first, last = x // TILE, -(-(x + width) // TILE)
            self._touched.update(range(down * ACROSS + first, down * ACROSS + last))
        self.drawn = True

    def _content(self, tile: int) -> bytes:
        x, y, width, height = _area(tile)
        starts = range(y * STRIDE + x * PIXEL, (y + height) * STRIDE, STRIDE)
        return b"".join([self.pixels[start : start + width * PIXEL] for start in starts])

    def _take(self, size: int) -> bytes:
        # Nothing is read ahead: select says what is left.
        data = self._socket.recv(size, socket.MSG_WAITALL) if size else b""
        if len(data) != size:
            raise SystemExit("the X server has ended")
        return data


class Desktop:
    """Executes batches of events."""

    def __init__(self) -> None:
        PLACE.mkdir(mode=0o700, exist_ok=True)
        self._machine = Machine()
        (PLACE / "rfb").unlink(missing_ok=True)
        letter = Path.home() / "letter.txt"
        if not letter.exists():
            letter.write_text(LETTER, encoding="ascii")
        clock = {"LD_PRELOAD": str(HERE / "moment.so"), "SATCHEL_STANDS": "monotonic"}
        _start(SERVER, {**os.environ, **clock})
        self._screen = Screen(PLACE / "rfb")
        for argv in PROGRAMS:
            _start(argv, {**os.environ, "DISPLAY": SCREEN})
            self._settle()
        for x in (0, 300):  # the X server draws a pointer that it has not been told to move
            self._screen.send(_pointer(x, 300))
            self._settle()

    def execute(
        self, events: bytes, *, whole: bool, early: Callable[[bytes], None]
    ) -> bytes | None:
        """The answer to a batch; None: the last early one stands."""
        self._machine.reap()
        answer = _Answer(self._screen, whole, early)
        for event in _events(events):
            self._screen.send(event)
            self._rest(answer)
        self._settle(answer)
        return answer.final()

    def _rest(self, answer: _Answer) -> None:
        """Until the event has been dealt with: nobody has anything to do."""
        for _ in _looks(REST_LOOKS):
            if not self._screen.receive(STEP) and self._machine.idle():
                return
            answer.busy()
        print("the desktop does not rest", file=sys.stderr)

    def _settle(self, answer: _Answer | None = None) -> None:
        since, runs = time.monotonic(), self._machine.runs()
        for _ in _looks(SETTLE_LOOKS):
            if self._screen.receive(CALM) or not self._machine.idle():
                since, runs = time.monotonic(), self._machine.runs()
                if answer:
                    answer.busy()
            elif time.monotonic() - since >= QUIET:
                now = self._machine.runs()
                if now == runs:
                    return
                since, runs = time.monotonic(), now
            elif answer:
                answer.calm()
        print("the desktop does not settle", file=sys.stderr)


class _Answer:
    """What an operation has changed on the screen, told before it is known to be all."""

    def __init__(self, screen: Screen, whole: bool, early: Callable[[bytes], None]) -> None:
        self._screen, self._whole, self._early = screen, whole, early
        self._made = self._told = b""
        self._next = time.monotonic() + EARLY
        screen.drawn = True

    def calm(self) -> None:
        """Nothing happens at the moment."""
        if not self._screen.drawn:
            return
        began = time.monotonic()
        if self._make() and self._made != self._told:
            self._told = self._made
            self._early(self._told)
        self._next = time.monotonic() + max(EARLY, EARLY_SHARE * (time.monotonic() - began))

    def busy(self) -> None:
        """Something happens, and has for a while."""
        if time.monotonic() >= self._next:
            self.calm()

    def final(self) -> bytes | None:
        """The screen has settled."""
        if self._screen.drawn:
            self._make()
        self._screen.told()
        return None if self._made == self._told else self._made

    def _make(self) -> bool:
        """Whether there is anything to show."""
        digest, update = self._screen.differences(whole=self._whole)
        flags = WHOLE if self._whole else 0
        head = ANSWER.pack(b"SATS", VERSION, flags, WIDTH, HEIGHT, digest)
        self._made = head + zlib.compress(update, 6)
        return len(update) > NOTHING


def _looks(least: int) -> Iterator[int]:
    """As often as one may look whether a desktop settles."""
    deadline = time.monotonic() + SETTLED_WITHIN
    for number in itertools.count():
        if number >= least and time.monotonic() >= deadline:
            return
        yield number


def _events(data: bytes) -> Iterator[bytes]:
    """RFB's KeyEvent and PointerEvent messages; what else there is ends the batch."""
    at = 0
    while at < len(data):
        size = {4: 8, 5: 6}.get(data[at], 0)
        if not size or at + size > len(data):
            return
        yield data[at : at + size]
        at += size


def _pointer(x: int, y: int) -> bytes:
    return struct.pack(">BBHH", 5, 0, x, y)


def _area(tile: int) -> tuple[int, int, int, int]:
    x, y = tile % ACROSS * TILE, tile // ACROSS * TILE
    return x, y, min(TILE, WIDTH - x), min(TILE, HEIGHT - y)


def _below(pid: int) -> list[int]:
    """The processes that this one has started, and those that they have."""
    found = []
    for child in _read(f"/proc/{pid}/task/{pid}/children").split():
        found += [int(child), *_below(int(child))]
    return found


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # its process has ended
        return b""


def _start(argv: list[str], environment: dict[str, str]) -> None:
    subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, cwd=Path.home())


def _connected(path: Path) -> socket.socket:
    """To the X server, as soon as it listens there."""
    deadline = time.monotonic() + STARTED_WITHIN
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except OSError as error:
            connection.close()
            if time.monotonic() > deadline:
                raise SystemExit("the X server does not start") from error
            time.sleep(0.02)
        else:
            return connection


def serve(desktop: Desktop, port: int) -> None:
    """One connection for each operation, one at a time."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            connection, _ = listener.accept()
            try:
                with connection:
                    _answer(desktop, connection)
            except OSError as error:  # the agent's patience was over: what is on the screen stays
                print(f"an answer was not taken: {error}", file=sys.stderr)


def _answer(desktop: Desktop, connection: socket.socket) -> None:
    with connection.makefile("rb") as stream:
        head = stream.read(REQUEST.size)
        if len(head) < REQUEST.size:
            return
        magic, version, flags, _, size = REQUEST.unpack(head)
        if (magic, version) != (b"SATD", VERSION) or size > BATCH_LIMIT:
            return
        events = stream.read(size)

        def early(answer: bytes) -> None:
            with contextlib.suppress(OSError):  # nobody takes it: what is on the screen stays
                connection.sendall(EARLY_ANSWER.pack(b"SATE", len(answer)) + answer)

        answer = desktop.execute(events, whole=bool(flags & WHOLE), early=early)
        connection.sendall(STANDS if answer is None else answer)


if __name__ == "__main__":
    serve(Desktop(), int(sys.argv[1]))
