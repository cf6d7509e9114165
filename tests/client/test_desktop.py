# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The front of `rfb`, as an unmodified viewer (vncdotool) and as rubbish see it."""

import hashlib
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import matplotlib.image
import pytest

from client.fronts import desktop, open_front
from client.fronts.desktop import DesktopFront
from client.fronts.pixels import NATIVE, PixelFormat
from client.fronts.viewer import MAX_KEYS
from client.platform.settings import HOME
from client.session.feed import FINAL
from client.session.journal import Journal
from client.session.session import Session
from replay import AnswerPreview, Operation, Response
from replay.adapters import rfb
from satchel.errors import UnsupportedError
from satchel.ids import OperationNumber
from tests.client.replicas import InProcess, silence
from tests.waiting import eventually

WIDTH, HEIGHT = 160, 100
VIEWER = Path(sys.executable).with_name("vncdo")
BLUE = bytes((255, 0, 0, 0))
AREAS = list(rfb.tiles(WIDTH, HEIGHT))
EMPTY = zlib.compress(bytes(4))
CURSOR = rfb.RECTANGLE.pack(1, 0, 8, 1, rfb.CURSOR) + bytes(8 * 4) + b"\xff"


class Painter:
    """A desktop of six tiles: a key paints the next one in a colour of its own."""

    def __init__(self) -> None:
        self.colours = [bytes(4)] * len(AREAS)
        self.batches: list[bytes] = []
        self.whole: list[bool] = []

    def __call__(self, operation: Operation) -> bytes:
        flags, size = struct.unpack_from("<5xB2xI", operation.payload)
        events = operation.payload[-size:] if size else b""
        self.batches.append(events)
        self.whole.append(bool(flags))
        changed, at = set(), 0
        while at < len(events):
            if events[at] == rfb.KEY_EVENT and events[at + 1]:
                (keysym,) = struct.unpack_from(">I", events, at + 4)
                self.colours[keysym % len(AREAS)] = struct.pack("<I", (keysym & 255) * 0x10101)
                changed.add(keysym % len(AREAS))
            at += rfb.SIZES[events[at]]
        return rfb.normalise(self.answer(changed, whole=bool(flags)), operation)

    def answer(self, changed: set[int], *, whole: bool) -> bytes:
        parts = [
            rfb.RECTANGLE.pack(*AREAS[n], rfb.RAW) + self.tile(n)
            for n in range(len(AREAS))
            if whole or n in changed
        ]
        parts += [CURSOR] if whole else []
        digests = [hashlib.sha256(self.tile(n)).digest() for n in range(len(AREAS))]
        head = struct.pack("<4sBBHH", b"SATS", 2, whole, WIDTH, HEIGHT)
        update = struct.pack(">BxH", 0, len(parts)) + b"".join(parts)
        return head + hashlib.sha256(b"".join(digests)).digest() + zlib.compress(update)

    def tile(self, number: int) -> bytes:
        return self.colours[number] * (AREAS[number][2] * AREAS[number][3])


class Bench:
    """A front of a session with one replica."""

    def __init__(self) -> None:
        self.session = Session(Journal(None, None), stateful=False, response_seconds=60.0)
        self.painter = Painter()
        self.replica = InProcess(HOME, stateful=False)
        self.replica.says = self.painter
        self.session.add(self.replica, OperationNumber(0))
        front = open_front("rfb", self.session, 0)
        assert isinstance(front, DesktopFront)
        self.front = front

    def view(self, *words: str) -> None:
        """Run vncdotool against it."""
        argv = [str(VIEWER), "-s", f"127.0.0.1::{self.front.port}", "-t", "30", *words]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)

    def close(self) -> None:
        self.session.close()
        self.front.close()


class Raw:
    """A viewer that speaks for itself."""

    def __init__(self, port: int, buffer: int = 0) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(60)
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.connect(("127.0.0.1", port))
        self.stream = self.socket.makefile("rb")
        assert self.take(12) == b"RFB 003.008\n"

    def greet(self) -> tuple[int, int]:
        self.socket.sendall(b"RFB 003.008\n")
        return self.welcome()

    def welcome(self) -> tuple[int, int]:
        """Width and height of the screen, as soon as there is one."""
        assert self.take(2) == b"\1\1"
        self.socket.sendall(b"\1")
        assert self.take(4) == bytes(4)
        self.socket.sendall(b"\1")
        width, height, length = struct.unpack(">HH16xI", self.take(24))
        self.take(length)
        return width, height

    def ask(self, *, incremental: bool = False) -> None:
        self.socket.sendall(struct.pack(">BBHHHH", 3, incremental, 0, 0, WIDTH, HEIGHT))

    def update(self) -> dict[tuple[int, int, int, int], bytes]:
        """The rectangles of the next update; the pointer's shape is (0, 0, 0, 0)."""
        parts = {}
        for _ in range(struct.unpack(">BxH", self.take(4))[1]):
            x, y, width, height, encoding = struct.unpack(">HHHHi", self.take(12))
            if encoding == rfb.CURSOR:
                parts[0, 0, 0, 0] = self.take(width * height * 4 + (width + 7) // 8 * height)
            else:
                parts[x, y, width, height] = self.take(width * height * 4)
        return parts

    def watch(self) -> None:
        """Have seen the whole screen."""
        self.greet()
        self.ask()
        self.update()

    def key(self, keysym: int, *, down: bool = True) -> None:
        self.socket.sendall(rfb.key(keysym, down=down))

    def take(self, size: int) -> bytes:
        return self.stream.read(size)

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.fixture
def viewer(bench: Bench) -> Iterator[Raw]:
    made = Raw(bench.front.port)
    yield made
    made.close()


def test_a_viewer_types_and_sees_what_comes_of_it(bench: Bench, tmp_path: Path) -> None:
    bench.view("key", "x", "pause", "0.3", "capture", str(tmp_path / "screen.png"))
    seen = matplotlib.image.imread(tmp_path / "screen.png")
    assert seen.shape[:2] == (HEIGHT, WIDTH)
    assert bench.front.url == f"vnc://127.0.0.1:{bench.front.port}"
    x, y, _, _ = AREAS[ord("x") % len(AREAS)]
    assert round(float(seen[y, x][0]) * 255) == ord("x")
    assert b"".join(bench.painter.batches) == rfb.key(120, down=True) + rfb.key(120, down=False)
    assert bench.painter.whole == [True] + [False] * (len(bench.painter.whole) - 1)


def test_what_changed_is_sent_when_it_is_asked_for(bench: Bench, viewer: Raw) -> None:
    assert viewer.greet() == (WIDTH, HEIGHT)
    viewer.ask()
    assert set(viewer.update()) == set(AREAS)
    viewer.ask(incremental=True)
    viewer.key(6)
    assert viewer.update() == {AREAS[0]: struct.pack("<I", 0x60606) * (64 * 64)}
    viewer.socket.sendall(struct.pack(">BxHi", 2, 1, rfb.CURSOR))
    viewer.ask(incremental=True)
    assert viewer.update() == {(0, 0, 0, 0): CURSOR[12:]}


def test_a_second_viewer_costs_no_operation(bench: Bench, viewer: Raw) -> None:
    viewer.greet()
    other = Raw(bench.front.port)
    other.greet()
    other.ask()
    viewer.ask()
    assert other.update() == viewer.update()
    assert len(bench.painter.batches) == 1
    other.close()


def test_what_a_viewer_holds_down_is_let_go_when_it_goes(bench: Bench) -> None:
    viewer = Raw(bench.front.port)
    viewer.greet()
    viewer.key(0xFFE3)
    viewer.socket.sendall(rfb.pointer(3, 4, 1))
    viewer.close()
    pressed = rfb.key(0xFFE3, down=True) + rfb.pointer(3, 4, 1)
    let_go = rfb.key(0xFFE3, down=False) + rfb.pointer(3, 4)
    deadline = time.monotonic() + 20
    while b"".join(bench.painter.batches) != pressed + let_go:
        assert time.monotonic() < deadline, bench.painter.batches
        time.sleep(0.01)


class Foretelling(InProcess):
    """Says early that its answer is going to be `early`; answers when `settled` is set."""

    def __init__(self, name: str) -> None:
        super().__init__(name, patience=0.5)
        self.early: list[bytes] = []
        self.settled = threading.Event()

    def execute(self, operations: Sequence[Operation]) -> Iterator[Response | AnswerPreview]:  # type: ignore[override]
        for said in self.early:
            yield AnswerPreview(operations[-1].number, said)
        if self.early:
            self.settled.wait(20)
        yield from super().execute(operations)


def test_what_is_drawn_is_seen_before_the_answer_which_may_take_it_back(tmp_path: Path) -> None:
    session = Session(Journal(tmp_path, tmp_path), stateful=True, response_seconds=30.0)
    replica, painter = Foretelling(HOME), Painter()
    replica.says = painter
    session.add(replica, OperationNumber(0))
    front = DesktopFront(session)
    viewer = Raw(front.port)
    viewer.watch()
    on_the_way = Painter()
    on_the_way.colours[3] = bytes((9, 9, 9, 0))
    on_the_way.colours[4] = struct.pack("<I", 10 * 0x10101)  # as key 10 is going to paint it
    replica.early = [b"SATS, or not", on_the_way.answer({3, 4}, whole=False)]
    viewer.ask(incremental=True)
    viewer.key(10)
    seen = viewer.update()
    assert set(seen) == {AREAS[3], AREAS[4]}
    assert seen[AREAS[3]] == on_the_way.tile(3)
    viewer.ask(incremental=True)
    replica.settled.set()
    assert viewer.update() == {AREAS[3]: bytes(64 * 36 * 4)}
    assert front.screen().content(AREAS[4]) == painter.tile(4) == on_the_way.tile(4)
    assert painter.whole == [True, False]
    session.close()
    front.close()
    viewer.close()


def test_a_replica_that_dies_after_it_has_begun_to_answer_leaves_it_to_another(
    tmp_path: Path,
) -> None:
    session = Session(Journal(tmp_path, tmp_path), stateful=True, response_seconds=30.0)
    home, near = Foretelling(HOME), Foretelling("near")
    home.says, near.says = Painter(), Painter()
    for endpoint in (home, near):
        session.add(endpoint, OperationNumber(0))
    front = DesktopFront(session)
    viewer = Raw(front.port)
    viewer.watch()
    assert eventually(lambda: home.last == near.last == 1)
    on_the_way = Painter()
    on_the_way.colours[0] = bytes((9, 9, 9, 0))
    near.early = [on_the_way.answer({0}, whole=False)]
    home.gate.clear()
    viewer.ask(incremental=True)
    viewer.key(7)
    assert viewer.update() == {AREAS[0]: on_the_way.tile(0)}
    near.fault = silence("near")
    near.settled.set()
    feed = session.feed("near")
    assert feed is not None
    assert eventually(lambda: feed.state in FINAL)
    viewer.ask(incremental=True)
    home.gate.set()
    assert viewer.update() == {AREAS[0]: bytes(64 * 64 * 4), AREAS[1]: home.says.tile(1)}
    assert session.tally.first_responses[HOME] and session.tally.diverged == 0
    session.close()
    front.close()
    viewer.close()


def test_events_that_wait_are_one_operation_and_moves_are_joined(bench: Bench, viewer: Raw) -> None:
    viewer.greet()
    bench.replica.gate.clear()
    viewer.key(7)
    viewer.ask()
    viewer.update()
    moves = [rfb.pointer(x, 1) for x in range(1, 50)]
    drag = [rfb.pointer(50, 1, 1), rfb.pointer(60, 1, 1), rfb.pointer(99999 % 65536, 1, 1)]
    viewer.socket.sendall(b"".join([*moves, *drag, rfb.pointer(70, 1)]))
    viewer.ask()
    viewer.update()
    bench.replica.gate.set()
    viewer.key(8)
    last = rfb.key(8, down=True)
    assert eventually(lambda: b"".join(bench.painter.batches).endswith(last))
    joined = b"".join(bench.painter.batches[1:])
    assert joined.startswith(rfb.key(7, down=True))
    assert joined.count(rfb.pointer(50, 1, 1) + rfb.pointer(WIDTH - 1, 1, 1)) == 1
    assert len(joined) < 10 * 8


def test_after_a_lost_answer_the_whole_screen_is_asked_for(bench: Bench, viewer: Raw) -> None:
    viewer.watch()
    lost = threading.Event()

    def breaks(operation: Operation) -> bytes:
        bench.painter(operation)
        bench.replica.says = bench.painter
        lost.set()
        return rfb.normalise(b"", operation)

    bench.replica.says = breaks
    viewer.ask(incremental=True)
    viewer.key(9)
    assert lost.wait(60)
    assert viewer.update()[AREAS[9 % len(AREAS)]] == struct.pack("<I", 0x90909) * (64 * 36)
    assert bench.painter.whole == [True, False, True]


def test_what_was_executed_after_all_is_shown_without_another_event(
    bench: Bench, viewer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A desktop that was moved is slow at first; the screen stood still until somebody typed."""
    viewer.watch()
    monkeypatch.setattr(bench.session, "_response_seconds", 0.2)
    monkeypatch.setattr(desktop, "SCREEN_RETRY_SECONDS", (0.0, 0.5))
    bench.replica.gate.clear()
    viewer.ask(incremental=True)
    viewer.key(9)
    assert eventually(lambda: bench.session.last >= 4)
    bench.replica.gate.set()
    assert viewer.update()[AREAS[9 % len(AREAS)]] == struct.pack("<I", 0x90909) * (64 * 36)


def test_a_viewer_waits_for_a_first_screen_that_takes_longer_than_an_answer_may(
    bench: Bench, viewer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was turned away for good, and with it the person who had just started the service."""
    monkeypatch.setattr(bench.session, "_response_seconds", 0.2)
    monkeypatch.setattr(desktop, "SCREEN_RETRY_SECONDS", (0.0, 0.5))
    bench.replica.gate.clear()
    viewer.socket.sendall(b"RFB 003.008\n")
    assert eventually(lambda: bench.session.last >= 3)
    monkeypatch.setattr(bench.session, "_response_seconds", 60.0)
    bench.replica.gate.set()
    assert viewer.welcome() == (WIDTH, HEIGHT)
    viewer.ask()
    assert set(viewer.update()) == set(AREAS)


def test_without_an_answer_a_viewer_is_told_why(bench: Bench) -> None:
    bench.session.drop(HOME)
    bench.session.refuse(silence("home"))
    viewer = Raw(bench.front.port)
    viewer.socket.sendall(b"RFB 003.008\n")
    assert viewer.take(1) == b"\0"
    assert b"home does not answer" in viewer.take(struct.unpack(">I", viewer.take(4))[0])
    viewer.close()


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\xff",
        b"\0" * 20,
        struct.pack(">B3xi", 6, -(1 << 31)),
        struct.pack(">B3xi", 6, (1 << 31) - 1),
        b"\0" * 4 + struct.pack(">BBBBHHHBBBxxx", 8, 8, 0, 1, 255, 255, 255, 0, 3, 6),
    ],
)
def test_rubbish_ends_its_connection_and_nothing_else(
    bench: Bench, viewer: Raw, rubbish: bytes
) -> None:
    viewer.greet()
    viewer.socket.sendall(rubbish)
    assert viewer.take(1) == b""
    other = Raw(bench.front.port)
    assert other.greet() == (WIDTH, HEIGHT)
    other.close()


def test_a_viewer_may_say_all_that_rfc_6143_lets_it_say(bench: Bench, viewer: Raw) -> None:
    viewer.greet()
    encodings = struct.pack(">BxH", 2, 65535) + struct.pack(">i", 7) * 65534
    viewer.socket.sendall(encodings + struct.pack(">i", rfb.CURSOR))
    for sign in (1, -1):  # the extended clipboard has a negative length
        viewer.socket.sendall(struct.pack(">B3xi", 6, sign * (3 << 20)) + b"x" * (3 << 20))
    pressed = [rfb.key(keysym, down=True) for keysym in range(1, MAX_KEYS + 2)]
    viewer.socket.sendall(b"".join(pressed))
    viewer.ask()
    assert set(viewer.update()) == {*AREAS, (0, 0, 0, 0)}
    let_go = rfb.key(1, down=False)
    assert eventually(lambda: b"".join(bench.painter.batches) == b"".join([*pressed, let_go]))


@pytest.mark.parametrize("version", [b"RFB 003.003\n", b"RFB 003.007\n", b"RFB 003.005\n"])
def test_a_viewer_of_an_older_version_is_greeted_in_it(
    bench: Bench, viewer: Raw, version: bytes
) -> None:
    viewer.socket.sendall(version)
    if version == b"RFB 003.007\n":
        assert viewer.take(2) == b"\1\1"
        viewer.socket.sendall(b"\1")
    else:
        assert viewer.take(4) == b"\0\0\0\1"
    viewer.socket.sendall(b"\0")
    assert struct.unpack(">HH", viewer.take(4)) == (WIDTH, HEIGHT)
    viewer.take(16)
    viewer.take(struct.unpack(">I", viewer.take(4))[0])
    viewer.ask()
    assert set(viewer.update()) == set(AREAS)


@pytest.mark.parametrize("minor", [7, 8])
def test_security_that_was_not_offered_is_refused_in_words(
    bench: Bench, viewer: Raw, minor: int
) -> None:
    viewer.socket.sendall(f"RFB 003.00{minor}\n".encode())
    assert viewer.take(2) == b"\1\1"
    viewer.socket.sendall(b"\2")
    assert viewer.take(4) == b"\0\0\0\1"
    if minor == 8:
        assert b"not offered" in viewer.take(struct.unpack(">I", viewer.take(4))[0])
    assert viewer.take(1) == b""


def test_two_requests_that_wait_get_what_both_ask_for(bench: Bench, viewer: Raw) -> None:
    viewer.watch()
    for x, y, width, height in (AREAS[0], AREAS[-1]):
        viewer.socket.sendall(struct.pack(">BBHHHH", 3, 1, x, y, width, height))
    viewer.key(6)
    assert set(viewer.update()) == {AREAS[0]}


def test_a_viewer_with_a_map_of_colours_gets_the_map_first(bench: Bench, viewer: Raw) -> None:
    viewer.greet()
    mapped = struct.pack(">BBBBHHHBBBxxx", 8, 8, 0, 0, 0, 0, 0, 0, 0, 0)
    viewer.socket.sendall(bytes(4) + mapped)
    viewer.ask()
    kind, first, count = struct.unpack(">BxHH", viewer.take(6))
    assert (kind, first, count) == (1, 0, 256)
    places = [struct.unpack(">3H", viewer.take(6)) for _ in range(count)]
    assert (places[0], places[255]) == ((0, 0, 0), (65535, 65535, 65535))
    assert len(set(places)) == 256
    assert viewer.take(4) == struct.pack(">BxH", 0, len(AREAS))
    assert viewer.take(12 + 64 * 64)[12:] == bytes(64 * 64)


def test_a_web_page_gets_no_screen(bench: Bench, viewer: Raw) -> None:
    viewer.socket.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    viewer.socket.settimeout(60)
    assert viewer.take(1) == b""
    assert not bench.painter.batches


def test_pixels_in_another_order_and_of_another_size() -> None:
    pixels = bytes((1, 2, 3, 9, 255, 128, 0, 9))
    rgb = PixelFormat(32, True, (255, 255, 255), (24, 16, 8))
    assert rgb.convert(pixels) == bytes((3, 2, 1, 255, 0, 128, 255, 255))
    small = PixelFormat(16, False, (31, 63, 31), (11, 5, 0))
    assert small.convert(pixels)[2:] == struct.pack("<H", 0 << 11 | 32 << 5 | 31)
    assert PixelFormat(8, False, (7, 7, 3), (0, 3, 6)).convert(BLUE) == bytes((3 << 6,))
    mapped = PixelFormat(8, False, (7, 7, 3), (0, 3, 6), mapped=True)
    assert mapped.convert(bytes((255, 255, 255, 0, 0, 0, 255, 0))) == bytes((255, 7))
    for form in (rgb, small, mapped, NATIVE):
        assert PixelFormat.decode(form.encode()) == form
    with pytest.raises(UnsupportedError):
        PixelFormat.decode(bytes(16))


def test_a_viewer_that_reads_nothing_holds_nothing_up(bench: Bench) -> None:
    viewer = Raw(bench.front.port, buffer=4096)
    viewer.greet()
    for _ in range(300):
        viewer.ask()
        time.sleep(0.002)
    viewer.socket.shutdown(socket.SHUT_WR)
    assert eventually(lambda: not bench.front._viewers)
    viewer.close()


def test_of_events_that_wait_there_is_a_bound(
    bench: Bench, viewer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desktop, "WAITING", 8)
    viewer.greet()
    bench.replica.gate.clear()
    keys = [rfb.key(keysym, down=down) for keysym in range(100, 200) for down in (True, False)]
    viewer.socket.sendall(b"".join(keys))
    assert eventually(lambda: len(bench.front._events) == 8)
    time.sleep(0.1)
    assert len(bench.front._events) == 8
    bench.replica.gate.set()
    assert eventually(lambda: b"".join(bench.painter.batches) == b"".join(keys))


def test_a_first_screen_that_is_not_whole_is_asked_for_again(bench: Bench, viewer: Raw) -> None:
    def lies(operation: Operation) -> bytes:
        bench.replica.says = bench.painter
        return rfb.normalise(bench.painter(operation)[:10] + bytes(32) + EMPTY, operation)

    bench.replica.says = lies
    viewer.watch()
    viewer.key(9)
    assert eventually(lambda: bench.painter.whole[:2] == [True, True])


def test_a_screen_of_another_size_is_not_shown_and_the_right_one_is_asked_for(
    bench: Bench, viewer: Raw
) -> None:
    viewer.watch()
    strange = rfb.RECTANGLE.pack(300, 200, 8, 8, rfb.RAW) + bytes(8 * 8 * 4)

    def lies(operation: Operation) -> bytes:
        bench.painter(operation)
        bench.replica.says = bench.painter
        head = struct.pack("<4sBBHH", b"SATS", 2, 0, 320, 240) + bytes(32)
        return rfb.normalise(head + zlib.compress(b"\0\0\0\1" + strange), operation)

    bench.replica.says = lies
    viewer.ask(incremental=True)
    viewer.key(9)
    shown = viewer.update()
    assert set(shown) == set(AREAS)
    assert shown[AREAS[9 % len(AREAS)]] == struct.pack("<I", 0x90909) * (64 * 36)
    assert bench.painter.whole == [True, False, True]


def test_a_size_that_is_answered_twice_is_the_desktop_s_and_viewers_begin_anew(
    bench: Bench, viewer: Raw
) -> None:
    def lies(operation: Operation) -> bytes:
        bench.replica.says = bench.painter
        pixels = bytes(64 * 64 * 4)
        digest = hashlib.sha256(hashlib.sha256(pixels).digest()).digest()
        part = rfb.RECTANGLE.pack(0, 0, 64, 64, rfb.RAW) + pixels
        head = struct.pack("<4sBBHH", b"SATS", 2, 1, 64, 64) + digest
        return rfb.normalise(head + zlib.compress(b"\0\0\0\1" + part), operation)

    bench.replica.says = lies
    assert viewer.greet() == (64, 64)
    viewer.key(9)
    assert viewer.stream.read() == b""
    with closing(Raw(bench.front.port)) as again:
        assert again.greet() == (WIDTH, HEIGHT)


@pytest.mark.parametrize(
    ("width", "height", "part"),
    [
        (0, 100, b""),
        (160, 0, b""),
        (160, 100, rfb.RECTANGLE.pack(0, 0, 257, 1, rfb.CURSOR) + bytes(257 * 4 + 33)),
        (160, 100, rfb.RECTANGLE.pack(8, 0, 8, 1, rfb.CURSOR) + bytes(8 * 4 + 1)),
        (160, 100, rfb.RECTANGLE.pack(100, 0, 64, 1, rfb.RAW) + bytes(64 * 4)),
    ],
)
def test_an_answer_that_no_viewer_may_see_is_none(width: int, height: int, part: bytes) -> None:
    head = struct.pack("<4sBBHH", b"SATS", 2, 0, width, height) + bytes(32)
    count = struct.pack(">BxH", 0, bool(part))
    with pytest.raises(rfb.NotADesktop):
        rfb.decode(head + zlib.compress(count + part))
