# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A guest for the fake driver that speaks the agent protocol: what is above is tested in no time.

Its service answers HTTP. Each response says how many operations were executed and the hash of all
of them in order, so two guests that answer alike have executed the same history. Paths do things:
/hang is executed and never answered, /boom ends the service without an answer, /down finds no
service, /late is answered after 0.2 s. /recognize is answered whatever was before, as a stateless
service does. /long/N is answered with N MiB, in parts to who wants a stream. /early is answered as
a desktop does, with EARLY, which it says early to who wants parts.
"""

import hashlib
import json
import struct
import time
import zlib
from typing import Any

from hypervisor import FakeDriver, MachineSpec
from replay import Operation, adapters
from replay.frames import (
    REPLY_BIT,
    WANTS_PARTS,
    WANTS_STREAM,
    AgentFrame,
    FrameReader,
    FrameStatus,
    FrameType,
)
from satchel.ids import OperationNumber

SPEC = MachineSpec(memory_mib=16, disks=("disk0",))
TIME = 1_700_000_000 * 10**9
EARLY = struct.pack("<4sBBHH32s", b"SATS", 2, 0, 64, 64, bytes(32)) + zlib.compress(bytes(4))


class ScriptedGuest:
    """See hypervisor.FakeGuest."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self.last = 0
        self.history = hashlib.sha256(b"").hexdigest()
        self.answer = b""

    def receive(self, data: bytes) -> bytes:
        return b"".join(self._reply(frame) for frame in self._reader.feed(data))

    def freeze(self) -> bytes:
        answer = self.answer.decode("latin-1")
        state = {"last": self.last, "history": self.history, "answer": answer}
        return json.dumps(state).encode()

    def thaw(self, memory: bytes) -> None:
        state = json.loads(memory)
        self.last, self.history = state["last"], state["history"]
        self.answer = state["answer"].encode("latin-1")

    def _reply(self, request: AgentFrame) -> bytes:
        kind = FrameType(request.type)
        fields: dict[str, Any] = {"number": self.last}
        said = b""
        if kind is FrameType.HELLO:
            fields["payload"] = b"ready=1\nexecuting=0\nrestarts=0\n"
        elif kind is FrameType.DIGEST:
            fields["payload"] = self.history.encode()
        elif kind is FrameType.RUN:
            fields = {"number": 0, "payload": request.payload}
        elif kind is FrameType.READ:
            text = f"read {self.last} {self.history}\n"
            fields["status"] = FrameStatus.OK
            if request.number > self.last + 1:
                fields["status"] = FrameStatus.GAP
            answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}"
            fields["payload"] = answer.encode()
        elif kind is FrameType.EXECUTE:
            path = request.payload.split(b" ", 2)[1]
            fields["status"] = self._refusal(request.number, path)
            if fields["status"] is FrameStatus.OK and request.number > self.last:
                self._execute(request, path)
                if path == b"/hang":
                    return b""
                fields["status"] = FrameStatus.OK if self.answer else FrameStatus.BROKEN
            fields |= {"number": self.last, "payload": self.answer}
            said = self._said(request, path)
            if said and request.status == WANTS_STREAM:
                fields |= {"status": FrameStatus.STREAMED}
                fields |= {"payload": struct.pack("<Q", len(self.answer))}
        return said + AgentFrame(kind | REPLY_BIT, request.id, **fields).encode()

    def _said(self, request: AgentFrame, path: bytes) -> bytes:
        """What comes before the reply."""
        if request.status == WANTS_PARTS and path == b"/early":
            part = FrameType.PART | REPLY_BIT
            return AgentFrame(part, request.id, payload=self.answer[:-4]).encode()
        if request.status == WANTS_STREAM and path.startswith(b"/long/"):
            return _parts(request.id, self.answer)
        return b""

    def _refusal(self, number: int, path: bytes) -> FrameStatus:
        if number < self.last:
            return FrameStatus.ALREADY_EXECUTED
        if number > self.last + 1:
            return FrameStatus.GAP
        return FrameStatus.NOT_READY if path == b"/down" else FrameStatus.OK

    def _execute(self, request: AgentFrame, path: bytes) -> None:
        if path == b"/late":
            time.sleep(0.2)
        self.last = request.number
        self.history = hashlib.sha256(self.history.encode() + request.payload).hexdigest()
        body = "heard\n" if path == b"/recognize" else f"{self.last} {self.history}\n"
        self.answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        if path == b"/boom":
            self.answer = b""
        if path.startswith(b"/long/"):
            self.answer = b"HTTP/1.1 200 OK\r\n\r\n" + long_body(int(path[6:]))
        if path == b"/early":
            self.answer = b"SATE" + struct.pack("<I", len(EARLY)) + EARLY + b"SATL"


def long_body(mebibytes: int) -> bytes:
    """The body of /long/N."""
    return b"".join(number.to_bytes(8, "little") for number in range(mebibytes << 17))


def _parts(number: int, answer: bytes) -> bytes:
    size = 1 << 16
    return b"".join(
        AgentFrame(
            FrameType.PART | REPLY_BIT, number, number=at, payload=answer[at : at + size]
        ).encode()
        for at in range(0, len(answer), size)
    )


def scripted_driver() -> FakeDriver:
    return FakeDriver(ScriptedGuest)


def operation(number: int, path: str = "/", body: bytes = b"") -> Operation:
    """An operation of which everything follows from the arguments."""
    time_ns, seed = TIME + number * 10**9, number * 7
    payload = adapters.http.encode(
        "POST", path, [], body, number=number, time_ns=time_ns, seed=seed
    )
    return Operation(OperationNumber(number), time_ns, seed, payload)


def body(response: bytes) -> str:
    return adapters.http.decode(response).body.decode()
