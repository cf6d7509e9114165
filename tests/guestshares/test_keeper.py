# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What replicas of one guest ask of a share is done once, whoever asks first, and however often."""

import errno
import fcntl
import os
import socket
import struct
import threading
from contextlib import closing
from pathlib import Path

import pytest

from guestshares import Call, CallHost, CallName, Keeper, keeper
from guestshares.kernel import IN_HEADER, OUT_HEADER, KernelRequest, Opcode
from guestshares.line import RECORD, Pieces
from shares.node import LockKind
from shares.protocol import FileId
from tests.conftest import requires
from tests.guestshares.home import Home, add_line
from tests.guestshares.kernel import INIT, ROOT, Kernel
from tests.waiting import eventually

pytestmark = requires("fuse")


class Greedy:
    """A guest that asks and asks. asked: how often, the last time perhaps in part"""

    def __init__(self, keeper: Keeper) -> None:
        self.end, self._session = socket.socketpair()
        self._calls = CallHost(lambda: keeper).serve(self._session)
        self._stream = Pieces(self.end)
        self.asked = 0
        self.asks(Opcode.INIT, INIT, ROOT)
        assert self.takes() == 0
        self.asked = 0
        self.end.settimeout(2)

    def asks(self, opcode: int, body: bytes, file: int) -> None:
        self.asked += 1
        length = IN_HEADER.size + len(body)
        message = IN_HEADER.pack(length, opcode, 2 * self.asked, file, 0, 0, 0, 0) + body
        self.end.sendall(RECORD.pack(length, 2, 0, 0) + message)

    def takes(self) -> int:
        """The errno of one reply."""
        length, error, _ = OUT_HEADER.unpack(self._stream.take(OUT_HEADER.size))
        self._stream.take(length - OUT_HEADER.size)
        return -int(error)

    def close(self) -> None:
        self.end.close()
        self._calls.close()
        self._session.close()


def test_two_replicas_append_a_line_once_whoever_is_first(home: Home) -> None:
    guest, distant = home.guest(), home.distant()
    for operation in range(1, 7):
        first, second = (guest, distant) if operation % 2 else (distant, guest)
        for kernel in (first, second):
            add_line(kernel, f"{operation}\n", operation)
        guest.calls.finished(operation)
    assert home.text() == "1\n2\n3\n4\n5\n6\n"


def test_replicas_at_once_append_each_line_once(home: Home) -> None:
    home.logged = 40
    kernels = [home.guest(), home.distant(1_000_002), home.distant(2_000_002)]
    add_line(kernels[0], "0\n", 1)

    def run(kernel: Kernel) -> None:
        for operation in range(1, 31):
            add_line(kernel, f"{operation - 1}\n", operation)
            kernel.calls.finished(operation)

    threads = [threading.Thread(target=run, args=(kernel,)) for kernel in kernels[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for operation in range(2, 31):
        add_line(kernels[0], f"{operation - 1}\n", operation)
    lines = home.text().splitlines()
    assert lines == [str(number) for number in range(30)]


def test_the_same_asked_twice_in_an_operation_is_done_twice(home: Home) -> None:
    guest, distant = home.guest(), home.distant()
    for kernel in (distant, guest):
        handle = kernel.create("log", 1)
        file = kernel.lookup("log", 1)
        for _ in range(3):
            kernel.append(file, handle, b"x", 1)
    assert home.text() == "xxx"


def test_a_replica_reads_what_another_one_read_whatever_was_written_since(home: Home) -> None:
    (home.papers / "letter").write_text("first")
    guest, distant = home.guest(), home.distant()

    def letter(kernel: Kernel, operation: int) -> bytes:
        file = kernel.lookup("letter", operation)
        return kernel.read(file, kernel.open(file, operation), operation)

    assert letter(guest, 1) == b"first"
    guest.calls.finished(1)
    home.writes("letter", "second")
    assert letter(distant, 1) == b"first"
    assert letter(distant, 2) == b"second"
    home.writes("letter", "third")
    assert letter(guest, 2) == b"second"


def test_home_that_begins_again_finds_what_its_log_did(home: Home) -> None:
    """docs/shares.md used to say that such a replay appends once more."""
    guest = home.guest()
    for operation in (1, 2):
        add_line(guest, f"{operation}\n", operation)
        guest.calls.finished(operation)
    add_line(guest, "3\n", 3)  # the end of it is not heard of
    home.restart()
    guest = home.guest()
    for operation in (1, 2, 3, 4):
        add_line(guest, f"{operation}\n", operation)
    assert home.text() == "1\n2\n3\n4\n"


def test_what_nobody_asked_in_a_finished_operation_fails(home: Home) -> None:
    guest, distant = home.guest(), home.distant()
    add_line(guest, "1\n", 1)
    guest.calls.finished(1)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        distant.create("other", 1)
    assert not (home.papers / "other").exists()
    home.restart()
    for kernel in (home.guest(), home.distant()):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            kernel.create("other", 1)
    assert home.names() == ["log"]


def test_a_copy_is_given_what_was_done_and_changes_nothing(home: Home) -> None:
    guest = home.guest()
    for operation in (1, 2):
        add_line(guest, f"{operation}\n", operation)
    copy = home.copy()
    for operation in (1, 2):
        add_line(copy, f"{operation}\n", operation)
    for operation in (0, 2, 3):
        with pytest.raises(OSError, match=f"{os.strerror(errno.EIO)}|{os.strerror(errno.EROFS)}"):
            copy.create("other", operation)
    add_line(guest, "3\n", 3)
    assert home.names() == ["log"]
    assert home.text() == "1\n2\n3\n"


def test_what_a_surrogate_says_is_finished_is_not(home: Home) -> None:
    guest, distant = home.guest(), home.distant()
    distant.calls.finished(9)
    with pytest.raises(FileNotFoundError):
        distant.lookup("log", 9)
    add_line(guest, "1\n", 1)
    assert home.text() == "1\n"


def test_what_a_surrogate_asks_is_done_when_the_operation_is_logged(home: Home) -> None:
    distant = home.distant()
    body = struct.pack("<II", 0o755, 0) + b"a\0"
    number = distant.begin(Opcode.MKDIR, body, ROOT, 12)
    home.logs(11)
    with pytest.raises(FileNotFoundError):
        distant.lookup("a", 11)
    assert distant.waits(number)
    assert home.names() == []
    home.logs(12)
    assert distant.wait(number)[0] == 0
    assert home.names() == ["a"]


def test_a_change_without_a_grant_is_done_when_homes_replica_asks_for_the_same(home: Home) -> None:
    guest, stranger = home.guest(), home.stranger()
    body = struct.pack("<II", 0o755, 0)
    true = stranger.begin(Opcode.MKDIR, body + b"true\0", ROOT, 1)
    false = stranger.begin(Opcode.MKDIR, body + b"false\0", ROOT, 1)
    with pytest.raises(FileNotFoundError):  # what it reads is not held up
        stranger.lookup("true", 1)
    assert stranger.waits(true)
    assert home.names() == []
    assert guest.ask(Opcode.MKDIR, body + b"true\0", ROOT, 1)[0] == 0
    assert stranger.wait(true)[0] == 0
    assert home.names() == ["true"]
    assert stranger.waits(false)
    guest.calls.finished(1)
    assert stranger.wait(false)[0] == errno.EIO
    assert home.names() == ["true"]


def test_what_is_asked_before_the_session_has_begun_is_no_answer_of_an_operation(
    home: Home,
) -> None:
    (home.papers / "log").write_text("")
    replies: list[bytes] = []
    message = IN_HEADER.pack(44, Opcode.LOOKUP, 2, ROOT, 33, 33, 0, 0) + b"log\0"
    call = Call(KernelRequest.parse(message), CallName(1, 0, bytes(32)))
    home.keeper.elsewhere().ask(call, replies.append)
    assert OUT_HEADER.unpack(replies[0])[1] == -errno.EIO
    assert home.guest().lookup("log", 1)


def test_between_operations_home_changes_the_share_and_a_surrogate_reads(home: Home) -> None:
    guest, distant = home.guest(), home.distant()
    handle = guest.create("log", 0)
    file = guest.lookup("log", 0)
    guest.append(file, handle, b"home", 0)
    for name in ("log", "other"):
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            distant.create(name, 0)
    with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
        distant.open(file, 0, os.O_WRONLY)
    reading = distant.open(file, 0)
    assert distant.read(file, reading, 0) == b"home"
    distant.release(file, reading)
    guest.append(file, handle, b"!", 0)
    assert home.text() == "home!"


def test_what_is_read_for_a_request_that_changes_nothing_is_part_of_no_operation(
    home: Home,
) -> None:
    """An agent says the number of the operation after it."""
    guest = home.guest()
    with guest.calls.reading(), pytest.raises(FileNotFoundError):
        guest.lookup("log", 1)
    home.writes("log", "")
    assert guest.lookup("log", 1)


def test_who_goes_on_with_a_machine_counts_on(home: Home, tmp_path: Path) -> None:
    """In the middle of an operation, with a request that had no answer."""
    guest = home.guest(tmp_path / "counts")
    handle = guest.create("log", 1)
    file = guest.lookup("log", 1)
    for _ in range(2):
        guest.append(file, handle, b"x", 1)
    last = guest.begin(Opcode.WRITE, guest.appending(handle, b"x"), file, 1)
    assert guest.wait(last)[0] == 0
    home.leave(guest)
    guest = home.guest(tmp_path / "counts")
    guest.go_on_from(last)
    assert guest.wait(guest.begin(Opcode.WRITE, guest.appending(handle, b"x"), file, 1))[0] == 0
    guest.append(file, handle, b"x", 1)
    assert home.text() == "xxxx"


def test_a_lock_that_is_waited_for_is_granted_to_all_when_it_is(home: Home) -> None:
    (home.papers / "log").write_text("")
    guest, distant = home.guest(), home.distant()
    kernels = {kernel: kernel.lookup("log", 1) for kernel in (guest, distant)}
    with home.other() as node:
        entry = node.lookup(FileId(ROOT), b"log")
        held = node.open(entry.attributes.file, os.O_RDWR)
        node.set_lock(held.number, 7, 0, 100, LockKind.WRITE, 1, False)
        waiting = []
        for kernel, file in kernels.items():
            handle = kernel.open(file, 1, os.O_RDWR)
            body = kernel.locking(handle, fcntl.F_WRLCK)
            waiting.append((kernel, kernel.begin(Opcode.SETLKW, body, file, 1)))
        assert all(kernel.waits(number) for kernel, number in waiting)
        node.set_lock(held.number, 7, 0, 100, LockKind.UNLOCK, 1, False)
        assert [kernel.wait(number)[0] for kernel, number in waiting] == [0, 0]


def test_who_waits_for_a_lock_is_interrupted_where_homes_program_is(home: Home) -> None:
    (home.papers / "log").write_text("")
    guest, distant = home.guest(), home.distant()
    with home.other() as node:
        held = node.open(node.lookup(FileId(ROOT), b"log").attributes.file, os.O_RDWR)
        node.set_lock(held.number, 7, 0, 100, LockKind.WRITE, 1, False)
        waiting = []
        for kernel in (guest, distant):
            file = kernel.lookup("log", 1)
            body = kernel.locking(kernel.open(file, 1, os.O_RDWR), fcntl.F_WRLCK)
            waiting.append(kernel.begin(Opcode.SETLKW, body, file, 1))
        distant.interrupt(waiting[1])
        assert distant.lookup("log", 1)  # it is dealt with
        assert distant.waits(waiting[1])
        guest.interrupt(waiting[0])
        assert guest.wait(waiting[0])[0] == errno.EINTR
        assert distant.wait(waiting[1])[0] == errno.EINTR


def test_the_service_is_a_node_only_while_somebody_asks(home: Home) -> None:
    assert home.nodes() == 0
    guest, distant = home.guest(), home.distant()
    assert home.nodes() == 1
    home.leave(guest)
    add_line(distant, "1\n", 1)
    home.leave(distant)
    assert eventually(lambda: home.nodes() == 0)
    assert home.text() == "1\n"


def test_a_replica_that_is_behind_finds_its_calls_after_checkpoints_at_home(home: Home) -> None:
    """It parted from home: the log was cut twice before the replica had come so far."""
    guest, distant = home.guest(), home.distant()
    for operation in range(1, 6):
        add_line(guest, f"{operation}\n", operation)
        guest.calls.finished(operation)
    add_line(distant, "1\n", 1)
    home.keeper.cut(3)
    home.keeper.cut(5)
    for operation in range(2, 6):
        add_line(distant, f"{operation}\n", operation)
    assert home.text() == "1\n2\n3\n4\n5\n"


def test_a_stranger_has_no_more_recorded_than_it_may_before_home_asks(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "ASKED_BYTES", 20_000)
    (home.papers / "letter").write_text("x" * 4096)
    guest, distant = home.guest(), home.distant()

    def reads(kernel: Kernel, operation: int) -> list[int]:
        file = kernel.lookup("letter", operation)
        handle = kernel.open(file, operation)
        bodies = (struct.pack("<QQIIQII", handle, 0, 4096, 2, 0, 0, 0) for _ in range(10))
        return [kernel.ask(Opcode.READ, body, file, operation)[0] for body in bodies]

    refused = reads(distant, 1).count(errno.EIO)
    assert 3 < refused < 8
    assert reads(guest, 1) == [0] * 10
    guest.calls.finished(1)
    assert reads(distant, 2).count(errno.EIO) == refused


def test_a_guest_that_takes_no_replies_is_read_no_further(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host kept them all, however many the guest asked for."""
    monkeypatch.setattr("guestshares.calls.UNDER_WAY_BYTES", 1 << 20)
    (home.papers / "letter").write_text("x" * 16384)
    guest = home.guest()
    file = guest.lookup("letter", 1)
    handle = guest.open(file, 1)
    with closing(Greedy(home.keeper.elsewhere())) as greedy:
        body = struct.pack("<QQIIQII", handle, 0, 16384, 2, 0, 0, 0)
        with pytest.raises(TimeoutError):
            for _ in range(4000):
                greedy.asks(Opcode.READ, body, file)
        assert greedy.asked < 3000
        assert [greedy.takes() for _ in range(greedy.asked - 1)] == [0] * (greedy.asked - 1)


def test_a_replica_that_stays_behind_holds_nothing_up_for_ever(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "BEHIND", 3)
    guest = home.guest()
    distant = home.distant()  # it never asks
    for operation in range(1, 11):
        add_line(guest, f"{operation}\n", operation)
        guest.calls.finished(operation)
    home.keeper.cut(3)
    home.keeper.cut(8)
    home.keeper.cut(9)  # what the log had before is kept, from 6 on
    add_line(distant, "6\n", 6)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        home.distant(2_000_002).lookup("log", 5)


def test_what_nobody_replays_any_more_is_forgotten(home: Home) -> None:
    guest, distant = home.guest(), home.distant()
    for operation in (1, 2):
        add_line(guest, f"{operation}\n", operation)
        guest.calls.finished(operation)
    add_line(distant, "1\n", 1)
    add_line(distant, "2\n", 2)
    home.keeper.cut(1)
    home.keeper.cut(2)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        home.distant(2_000_002).lookup("log", 1)
    assert home.text() == "1\n2\n"
