# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The host's end of the line to the agent in a guest.

The other end is what the guest says it is, so every answer is checked. One request is under way at
a time; each has an id, so that the late answer to a request that was given up is not taken for the
answer to the next one. After a timeout the channel may be used again.

AgentGone and AgentTimeout say nothing about whether an operation was executed: ask for it again, it
is executed at most once.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import secrets
import select
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from replay.frames import (
    REPLY_BIT,
    WANTS_PARTS,
    WANTS_STREAM,
    AgentFrame,
    FrameReader,
    FrameStatus,
    FrameType,
)
from replay.operations import Operation, OperationGap, Response
from satchel.errors import ConflictError, SatchelError, StateError, UnavailableError, UsageError
from satchel.ids import OperationNumber
from satchel.paths import SOCKET_PATH_LIMIT

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
HELLO_SECONDS = 30.0
EXECUTE_SECONDS = 600.0
TASK_SECONDS = 120.0
GRACE_SECONDS = 10.0
"""How much longer the host waits than the guest may take: the guest may be slow to say so."""

TAKE_SECONDS = 0.2
"""How long a machine that stands still may take to read what is at its agent's port."""

_TAKE_INTERVAL = 0.001
_HELLO_INTERVAL = 1.0
DEATHS = 3
"""How often a service may die while it is waited for: one that dies at once does so every time."""

_READY_INTERVAL = 0.1
_PIECE = 1 << 18
_PART = FrameType.PART | REPLY_BIT
_LAST_MILLISECOND = (1 << 32) - 1


class AgentGone(UnavailableError):
    """The agent's socket does not answer: the machine has ended or has not started."""


class AgentTimeout(UnavailableError):
    """The agent did not answer in time. It may still complete the request."""


class AgentFailed(SatchelError):
    """The agent could not perform the request, or its answer is malformed.

    status: the FrameStatus that it gave
    """

    def __init__(self, what: str, *, why: str, status: int) -> None:
        super().__init__(what, why=why, fix="look at the guest's console")
        self.status = status


class AlreadyExecuted(StateError):
    """The guest has executed later operations and no longer keeps this response."""

    def __init__(self, number: int, last: int) -> None:
        super().__init__(
            f"operation {number} was executed already",
            why=f"the guest has executed operation {last} and keeps the last response only",
        )
        self.number = OperationNumber(number)
        self.last = OperationNumber(last)


class OperationConflict(ConflictError):
    """The guest has executed another operation with this number: two logs have parted."""


class ServiceNotReady(UnavailableError):
    """The service in the guest accepts no operations. Nothing was executed."""


class ServiceTimeout(UnavailableError):
    """The service did not finish its response in time. The operation counts as executed."""


@dataclass(frozen=True)
class AgentStatus:
    """What the agent says of itself.

    ready:     the service takes operations
    last:      the last executed operation, 0 before the first
    executing: the operation under way, 0 for none
    restarts:  how often the service's process died and was started again
    exit:      how it died last, as "exit 1" or "signal 9"; empty if it never did
    problem:   why there is no service, or empty
    """

    ready: bool
    last: OperationNumber
    executing: OperationNumber = OperationNumber(0)  # noqa: RUF009
    restarts: int = 0
    exit: str = ""
    problem: str = ""


class AgentChannel:
    """A line to one agent. Thread-safe: requests wait for each other."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        """Takes over a connected stream socket; `name` is what errors call it."""
        connection.setblocking(False)
        self._socket = connection
        self._name = name
        self._reader = FrameReader()
        self._lock = threading.Lock()
        self._id = secrets.randbits(32)

    @classmethod
    def connect(cls, path: Path, timeout: float = CONNECT_SECONDS) -> AgentChannel:
        """Connects to the chardev socket of a machine, waiting for it to appear. AgentGone."""
        if len(str(path)) > SOCKET_PATH_LIMIT:
            raise UsageError(f"cannot connect to {path}", why="the path is too long for a socket")
        deadline = time.monotonic() + timeout
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(path))
                return cls(connection, str(path))
            except OSError as error:
                connection.close()
                if time.monotonic() >= deadline:
                    raise AgentGone(
                        f"cannot reach the agent at {path}",
                        why=error.strerror or str(error),
                        fix="look whether the machine runs",
                    ) from error
            time.sleep(0.05)

    def __enter__(self) -> AgentChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends a request under way in another thread with AgentGone. Idempotent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._socket.close()

    @property
    def last(self) -> OperationNumber:
        """The last operation that the guest has executed, as it says now."""
        return self.hello().last

    def hello(self, timeout: float = HELLO_SECONDS) -> AgentStatus:
        """Asks until the agent answers: a guest that is booting takes its time.

        Raises AgentTimeout, AgentGone, AgentFailed.
        """
        reply = self._request(AgentFrame(FrameType.HELLO, 0), timeout, again=_HELLO_INTERVAL)
        return _parse_status(reply)

    def wait_ready(self, timeout: float) -> AgentStatus:
        """Waits until the service takes operations.

        Raises ServiceNotReady when it does not in time or dies DEATHS times meanwhile, AgentFailed
        when the guest has no service, AgentTimeout, AgentGone.
        """
        deadline, before = time.monotonic() + timeout, None
        while True:
            status = self.hello(max(_HELLO_INTERVAL, deadline - time.monotonic()))
            before = status.restarts if before is None else before
            if status.ready:
                return status
            if status.problem:
                raise AgentFailed("the guest has no service", why=status.problem, status=0)
            if status.restarts - before >= DEATHS:
                raise ServiceNotReady(
                    f"the service died {DEATHS} times before it took operations",
                    why=f"it ended with {status.exit}",
                    fix="look at the guest's console",
                )
            if time.monotonic() >= deadline:
                died = f"it died {status.restarts} times, last with {status.exit}"
                raise ServiceNotReady(
                    f"the service is not ready after {timeout:g} s",
                    why=died if status.exit else "it does not listen on its port",
                    fix="look at the guest's console",
                )
            time.sleep(_READY_INTERVAL)

    def execute(
        self,
        operation: Operation,
        timeout: float | None = None,
        on_part: Callable[[bytes], None] | None = None,
    ) -> Response:
        """Executes an operation, at most once by its number; the service's raw response.

        on_part: told what the service says, as it comes and in this thread, of a response that is
        not whole yet; of one that a guest repeats, or of an older agent, nothing.
        The last executed operation gives its response again. A service that broke the connection
        off, or whose response is too large, has an empty response.
        Raises AlreadyExecuted, OperationGap, OperationConflict, ServiceNotReady, ServiceTimeout,
        AgentTimeout, AgentGone, AgentFailed.
        """
        said = _Parts(on_part) if on_part else None
        return self._counted(operation, self._perform(FrameType.EXECUTE, operation, timeout, said))

    def stream(
        self, take: Callable[[bytes], None], operation: Operation, timeout: float | None
    ) -> bool:
        """As `execute`, and the service's raw response goes to `take`, piece by piece and in order,
        in this thread; while that does not return the service waits. Whether it was whole: the
        service may break off. timeout: for each silence of the service. Raises as `execute`,
        AlreadyExecuted also where the guest has not all of the response any more."""
        said = _Parts(take, stream=True)
        performed = self._perform(FrameType.EXECUTE, operation, timeout, said)
        response = self._counted(operation, performed)
        if said.gap:
            raise AlreadyExecuted(operation.number, operation.number)
        if response.payload:  # a short one that is said again, or an older agent's
            take(response.payload)
        return not said.broken

    def _counted(self, operation: Operation, answered: tuple[Response, int]) -> Response:
        response, last = answered
        if last != operation.number:
            raise AgentFailed(
                f"cannot execute operation {operation.number}",
                why=f"the guest says that it executed {last}",
                status=FrameStatus.OK,
            )
        return response

    def read(self, operation: Operation, timeout: float | None = None) -> Response:
        """Executes a request that changes nothing, each time it is asked for; the raw response.

        It does not count: its number is that of the first operation that need not be executed
        before it. Raises as `execute` does, but for AlreadyExecuted and OperationConflict.
        """
        return self._perform(FrameType.READ, operation, timeout)[0]

    def _perform(
        self,
        kind: FrameType,
        operation: Operation,
        timeout: float | None,
        parts: _Parts | None = None,
    ) -> tuple[Response, int]:
        """The raw response, and the last operation that counted. Raises as `execute`."""
        seconds = EXECUTE_SECONDS if timeout is None else timeout
        request = AgentFrame(
            kind,
            0,
            parts.wish if parts else 0,
            timeout_ms=_milliseconds(seconds),
            number=operation.number,
            time_ns=operation.time_ns,
            seed=operation.seed,
            payload=operation.payload,
        )
        reply = self._request(request, seconds + GRACE_SECONDS, parts=parts)
        if reply.status in (FrameStatus.BROKEN, FrameStatus.TOO_LARGE):
            logger.warning("operation %d has no response: %s", operation.number, _text(reply))
            if parts:
                parts.broken = True
            return Response(operation.number, b""), operation.number
        if parts and reply.status == FrameStatus.STREAMED:
            parts.ended(int.from_bytes(reply.payload[:8], "little"))
            return Response(operation.number, b""), reply.number
        if reply.status != FrameStatus.OK:
            _refuse(operation, reply)
        return Response(operation.number, reply.payload), reply.number

    def digest(self, paths: Iterable[str]) -> str:
        """SHA-256 in hex over names and contents of the guest's files and folders at `paths`."""
        return _text(self._task(FrameType.DIGEST, "\0".join(paths).encode()))

    def run(self, argv: Sequence[str], timeout: float = TASK_SECONDS) -> tuple[int, bytes]:
        """Runs a program in the guest as root, for administration: exit status, all its output.

        The status is 128 + the signal that ended it, 127 if there is no such program; of the output
        at most 4 MiB come. Raises AgentTimeout when it took longer (it was killed), AgentFailed.
        """
        if not argv or not all(argv):
            raise UsageError("cannot run nothing", why="empty arguments do not cross to the guest")
        reply = self._task(FrameType.RUN, "\0".join(argv).encode(), timeout)
        return reply.number, reply.payload

    def sync(self, timeout: float = TASK_SECONDS) -> None:
        """Returns when the guest has written its file systems back."""
        self._task(FrameType.SYNC, b"", timeout)

    def attach_shares(self, mark: bytes, timeout: float = TASK_SECONDS) -> None:
        """Tell the guest that a host of its shares is at their port, by 16 random bytes.

        Raises AgentFailed where the guest has no shares, AgentTimeout, AgentGone.
        """
        self._task(FrameType.SHARES_ATTACH, mark, timeout)

    def settle_shares(self, timeout: float) -> bool:
        """Have the guest ask nothing of its shares until `resume_shares`, or until a host attaches.
        Whether all was answered in that time but what waits for a lock of somebody else."""
        request = AgentFrame(FrameType.SHARES_SETTLE, 0, timeout_ms=_milliseconds(timeout))
        reply = self._request(request, timeout + GRACE_SECONDS)
        return reply.status == FrameStatus.OK

    def resume_shares(self) -> None:
        """The end of `settle_shares`."""
        self._task(FrameType.SHARES_GO_ON, b"")

    def attach_streams(self, mark: bytes, timeout: float = TASK_SECONDS) -> None:
        """Tell the guest that a host of its streams is at their port, by 16 random bytes. Raises as
        `attach_shares`."""
        self._task(FrameType.STREAMS_ATTACH, mark, timeout)

    def waken(self, time_ns: int, entropy: bytes, timeout: float = TASK_SECONDS) -> None:
        """Tell a guest that goes on elsewhere, or later, what time it is, and give it randomness
        of which no other machine has any. Raises AgentFailed, AgentTimeout, AgentGone."""
        request = _waken(time_ns, entropy, timeout)
        reply = self._request(request, timeout + GRACE_SECONDS)
        if reply.status != FrameStatus.OK:
            why = _text(reply)
            raise AgentFailed("the guest does not wake", why=why, status=reply.status)

    def waken_first(self, time_ns: int, entropy: bytes) -> None:
        """Put the message of `waken` into the port of a machine that stands still, so that the
        guest finds it before its programs execute. Return when the machine has taken it, or after
        TAKE_SECONDS: it does not take it if its guest has not opened the port. Wait for no answer.
        Raises AgentGone."""
        with self._lock:
            self._id = (self._id + 1) % (1 << 32)
            frame = _waken(time_ns, entropy, TAKE_SECONDS)
            try:
                self._socket.sendall(AgentFrame(**{**vars(frame), "id": self._id}).encode())
                until = time.monotonic() + TAKE_SECONDS
                while _untaken(self._socket) and time.monotonic() < until:
                    time.sleep(_TAKE_INTERVAL)
            except OSError as error:
                raise AgentGone(f"lost the agent at {self._name}", why=str(error)) from error

    def _task(self, kind: FrameType, payload: bytes, timeout: float = TASK_SECONDS) -> AgentFrame:
        request = AgentFrame(kind, 0, timeout_ms=_milliseconds(timeout), payload=payload)
        reply = self._request(request, timeout + GRACE_SECONDS)
        if reply.status == FrameStatus.TIMEOUT:
            raise AgentTimeout(
                f"the guest did not finish {kind.name.lower()} in {timeout:g} s", why="it was ended"
            )
        if reply.status != FrameStatus.OK:
            what = f"the guest cannot {kind.name.lower()}"
            raise AgentFailed(what, why=_text(reply), status=reply.status)
        return reply

    def _request(
        self,
        request: AgentFrame,
        timeout: float,
        again: float = math.inf,
        parts: _Parts | None = None,
    ) -> AgentFrame:
        """The answer to a request, which is repeated every `again` seconds until it comes."""
        deadline = time.monotonic() + timeout
        what = f"the agent at {self._name} did not answer in {timeout:g} s"
        if not self._lock.acquire(timeout=max(0.0, timeout)):
            raise AgentTimeout(what, why="another request is under way")
        try:
            self._id = (self._id + 1) % (1 << 32)
            data = AgentFrame(**{**vars(request), "id": self._id}).encode()
            while True:
                until = min(deadline, time.monotonic() + again)
                reply = self._exchange(data, request.type | REPLY_BIT, until, parts)
                if reply is not None:
                    return reply
                if time.monotonic() >= deadline:
                    raise AgentTimeout(what, fix="look whether the machine runs")
        except (OSError, ValueError) as error:
            raise AgentGone(f"lost the agent at {self._name}", why=str(error)) from error
        finally:
            self._lock.release()

    def _exchange(
        self, data: bytes, wanted: int, until: float, parts: _Parts | None
    ) -> AgentFrame | None:
        """Sends all of `data` while it receives; None when the time is up before the answer."""
        unsent = memoryview(data)
        waiting = select.poll()  # and not select(), which takes no descriptor beyond 1023
        while (left := until - time.monotonic()) > 0:
            waiting.register(self._socket, select.POLLIN | (select.POLLOUT if unsent else 0))
            events = next((found for _, found in waiting.poll(left * 1000)), 0)
            if events & select.POLLOUT:
                with contextlib.suppress(BlockingIOError):
                    unsent = unsent[self._socket.send(unsent[:_PIECE]) :]
            if events & ~select.POLLOUT:
                received = self._socket.recv(_PIECE)
                if not received:
                    raise AgentGone(f"lost the agent at {self._name}", why="the machine ended")
                for frame in self._reader.feed(received):
                    if frame.type == wanted and frame.id == self._id:
                        return frame
                    if parts and (frame.type, frame.id) == (_PART, self._id):
                        until += parts.take(frame)
        return None


class _Parts:
    """What an agent says of one response before its reply. gap: of a streamed one, that it did not
    say all of it; broken: that the service did not."""

    def __init__(self, tell: Callable[[bytes], None], *, stream: bool = False) -> None:
        self.wish = WANTS_STREAM if stream else WANTS_PARTS
        self.gap = self.broken = False
        self._tell = tell
        self._stream = stream
        self._heard = time.monotonic()
        self._position = 0

    def take(self, part: AgentFrame) -> float:
        """Seconds by which the reply may come later."""
        self.gap = self.gap or (self._stream and part.number != self._position)
        if not self.gap:
            self._tell(part.payload)
            self._position += len(part.payload)
        before, self._heard = self._heard, time.monotonic()
        return self._heard - before if self._stream else 0.0

    def ended(self, length: int) -> None:
        """The agent says how long it was."""
        self.gap = self.gap or self._position != length


def _waken(time_ns: int, entropy: bytes, timeout: float) -> AgentFrame:
    milliseconds = _milliseconds(timeout)
    return AgentFrame(FrameType.WAKEN, 0, timeout_ms=milliseconds, time_ns=time_ns, payload=entropy)


def _untaken(connection: socket.socket) -> int:
    """Return how much of what was sent the other end has not read: unix(7), SIOCOUTQ."""
    answer = fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def _milliseconds(seconds: float) -> int:
    return max(1, min(_LAST_MILLISECOND, round(seconds * 1000)))


def _text(reply: AgentFrame) -> str:
    """A payload as the guest's words, bounded and harmless on a terminal."""
    text = reply.payload[:2000].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text)


def _parse_status(reply: AgentFrame) -> AgentStatus:
    lines = (
        line.partition("=") for line in reply.payload[:4000].decode("utf-8", "replace").split("\n")
    )
    words = {key: value for key, _, value in lines}
    try:
        return AgentStatus(
            ready=words["ready"] == "1",
            last=OperationNumber(reply.number),
            executing=OperationNumber(int(words["executing"])),
            restarts=int(words["restarts"]),
            exit=words.get("exit", ""),
            problem=words.get("problem", ""),
        )
    except (KeyError, ValueError) as error:
        why = f"its status makes no sense: {error}"
        raise AgentFailed("cannot talk to the agent", why=why, status=reply.status) from error


def _refuse(operation: Operation, reply: AgentFrame) -> NoReturn:
    what = f"cannot execute operation {operation.number}"
    match reply.status:
        case FrameStatus.ALREADY_EXECUTED:
            raise AlreadyExecuted(operation.number, reply.number)
        case FrameStatus.GAP:
            raise OperationGap(
                "the guest cannot execute it", number=operation.number, last=reply.number
            )
        case FrameStatus.CONFLICT:
            raise OperationConflict(what, why=_text(reply), fix="start from a newer checkpoint")
        case FrameStatus.NOT_READY:
            raise ServiceNotReady(what, why=_text(reply), fix="look at the guest's console")
        case FrameStatus.TIMEOUT:
            raise ServiceTimeout(what, why=_text(reply))
        case _:
            raise AgentFailed(what, why=_text(reply), status=reply.status)
