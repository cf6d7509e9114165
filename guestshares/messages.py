# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a surrogate says to home's keeper, as bytes. docs/formats/call-messages.md.

hello      JSON: version, replica, conversation, received; in return received, or refused
asked      kind (4), count (4), operation (8), FUSE request; the reply is one of FUSE, number 0
lead       kind (4), zero (4), operation (8); the reply is an operation (8), a session
yielded    kind (4), zero (12)
told       kind (4), zero (12), calls that were done
unsent     kind (4), zero (12), one call that was done, FUSE request
handoff    kind (4), zero (12), a session
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from guestshares.calls import Call
from guestshares.counts import CallName
from guestshares.digests import call_digest
from guestshares.kernel import MESSAGE_LIMIT, OUT_HEADER, KernelRequest, ShareMessageInvalid
from satchel.errors import IntegrityError
from satchel.names import check_name

VERSION = 4

COUNT_LIMIT = 1 << 31

_HEAD = struct.Struct("<IIQ")
_ASKED, _LEAD, _YIELDED, _TOLD, _UNSENT, _HANDOFF = 1, 2, 3, 4, 5, 6
_DONE = struct.Struct("<QII32s")


@dataclass(frozen=True)
class CallHello:
    """A surrogate's hello. conversation: a word for it; received: frames it has taken in it."""

    replica: str
    conversation: str
    received: int

    def pack(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}).encode()

    @classmethod
    def unpack(cls, hello: bytes) -> CallHello:
        """Raises IntegrityError, BadName."""
        values = _object(hello)
        version = values.pop("version", None)
        types = {"replica": str, "conversation": str, "received": int}
        if version != VERSION or {key: type(value) for key, value in values.items()} != types:
            raise IntegrityError("malformed hello", why=f"it is of version {str(version)[:20]}")
        made = cls(**values)
        check_name(made.replica, "replica")
        check_name(made.conversation, "conversation")
        if not 0 <= made.received < 1 << 63:
            raise IntegrityError("malformed hello", why="it has taken a number of frames")
        return made


def welcome(received: int) -> bytes:
    """Home's hello. received: frames that it has taken in the conversation."""
    return json.dumps({"received": received}).encode()


def refusal(why: str) -> bytes:
    """Home's hello to a conversation that it does not go on with."""
    return json.dumps({"refused": why[:200]}).encode()


def welcomed(hello: bytes) -> int:
    """What `welcome` was given. Raises IntegrityError where it was refused, or is no hello."""
    received = _object(hello).get("received")
    if type(received) is not int or not 0 <= received < 1 << 63:
        why = str(_object(hello).get("refused", ""))[:200]
        raise IntegrityError("home cannot continue the calls of a guest", why=why)
    return received


def encode_call(call: Call) -> bytes:
    operation, count = (call.name.operation, call.name.count) if call.name else (0, 0)
    return _HEAD.pack(_ASKED, count, operation) + call.request.message


@dataclass(frozen=True)
class CallResult:
    """A call that was done, and the reply."""

    name: CallName
    reply: bytes


@dataclass(frozen=True)
class ClaimLead:
    """The surrogate wants to have done what is asked of the share from that operation on."""

    operation: int


@dataclass(frozen=True)
class YieldLead:
    """It does not any more, and has told all that it had done."""


@dataclass(frozen=True)
class CompletedCalls:
    """What it had done, in that order. Home has what was written by it."""

    done: tuple[CallResult, ...]


@dataclass(frozen=True)
class UnsentCall:
    """A call that was done and whose writing home has not: part of the handoff that follows."""

    name: CallName
    reply: bytes
    request: KernelRequest


@dataclass(frozen=True)
class SentHandoff:
    """It leads no more. session: as records, for who leads next. The reply is YES when home has
    done all that was unsent."""

    session: bytes


RECALL, SESSION, EXPECT = b"\1", b"\2", b"\3"
"""Home's requests. RECALL: a surrogate that leads answers when it has handed over. SESSION: it
answers with its session as it is now. EXPECT, and a session: to one that is to lead next."""

FIRST = struct.Struct("<Q")
"""What the answer to ClaimLead begins with: from which operation it leads, the same or a later one;
0: it does not. Then the session of who led before."""

SESSION_LIMIT = 1 << 20

YES, NO = b"\1", b"\0"


def encode_first(operation: int, session: bytes = b"") -> bytes:
    return FIRST.pack(operation) + session


def decode_first(reply: bytes) -> tuple[int, bytes]:
    """0 also where that cannot be meant."""
    if not FIRST.size <= len(reply) <= FIRST.size + SESSION_LIMIT:
        return 0, b""
    return int(FIRST.unpack_from(reply)[0]), reply[FIRST.size :]


def encode(said: ClaimLead | YieldLead | CompletedCalls | UnsentCall | SentHandoff) -> bytes:
    match said:
        case ClaimLead(operation):
            return _HEAD.pack(_LEAD, 0, operation)
        case YieldLead():
            return _HEAD.pack(_YIELDED, 0, 0)
        case CompletedCalls(done):
            return _HEAD.pack(_TOLD, 0, 0) + encode_done(done)
        case UnsentCall(name, reply, request):
            done = (CallResult(name, reply),)
            return _HEAD.pack(_UNSENT, 0, 0) + encode_done(done) + request.message
        case SentHandoff(session):
            return _HEAD.pack(_HANDOFF, 0, 0) + session


def decode(
    payload: bytes,
) -> Call | ClaimLead | YieldLead | CompletedCalls | UnsentCall | SentHandoff:
    """What a surrogate says. Raises ShareMessageInvalid."""
    if len(payload) < _HEAD.size:
        raise ShareMessageInvalid(f"a surrogate says {len(payload)} bytes")
    kind, count, operation = _HEAD.unpack_from(payload)
    if kind == _ASKED:
        return decode_call(payload)
    body = payload[_HEAD.size :]
    if count or (kind != _LEAD and operation) or (kind < _TOLD and body):
        raise ShareMessageInvalid(f"what is of kind {kind} says more than that")
    match kind:
        case 2 if 0 < operation < 1 << 62:
            return ClaimLead(operation)
        case 3:
            return YieldLead()
        case 4:
            return CompletedCalls(tuple(decode_done(body)))
        case 5:
            return _decode_unsent(body)
        case 6 if len(body) <= SESSION_LIMIT:
            return SentHandoff(body)
    raise ShareMessageInvalid(f"a surrogate says something of kind {kind}")


def _decode_unsent(body: bytes) -> UnsentCall:
    done, at = _done_at(body, 0)
    request = KernelRequest.parse(body[at:])
    digest = b"" if request.refusal() else call_digest(request)
    if done.name.digest != digest:
        raise ShareMessageInvalid("what a surrogate has done is not what it says")
    return UnsentCall(done.name, done.reply, request)


def decode_call(payload: bytes) -> Call:
    """Raises ShareMessageInvalid."""
    if not _HEAD.size <= len(payload) <= _HEAD.size + MESSAGE_LIMIT:
        raise ShareMessageInvalid(f"a call has {len(payload)} bytes")
    kind, count, operation = _HEAD.unpack_from(payload)
    if kind != _ASKED or count >= COUNT_LIMIT:
        raise ShareMessageInvalid(f"a call is of kind {kind} and has the count {count}")
    request = KernelRequest.parse(payload[_HEAD.size :])
    named = operation and not request.refusal()
    return Call(request, CallName(operation, count, call_digest(request)) if named else None)


def encode_done(calls: Sequence[CallResult]) -> bytes:
    return b"".join(
        _DONE.pack(call.name.operation, call.name.count, len(call.reply), call.name.digest)
        + call.reply
        for call in calls
    )


def decode_done(payload: bytes) -> list[CallResult]:
    """Raises ShareMessageInvalid."""
    found, at = [], 0
    while at < len(payload):
        done, at = _done_at(payload, at)
        found.append(done)
    return found


def _done_at(payload: bytes, at: int) -> tuple[CallResult, int]:
    """That, and where it ends."""
    if len(payload) - at < _DONE.size:
        raise ShareMessageInvalid("what was done ends early")
    operation, count, length, digest = _DONE.unpack_from(payload, at)
    at += _DONE.size
    reply = payload[at : at + length]
    if not OUT_HEADER.size <= length <= MESSAGE_LIMIT or len(reply) < length:
        raise ShareMessageInvalid(f"what was done has a reply of {length} bytes")
    return CallResult(CallName(operation, count, digest), reply), at + length


def _object(data: bytes) -> dict[str, Any]:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise IntegrityError("malformed hello", why=str(error)) from error
    if not isinstance(values, dict):
        raise IntegrityError("malformed hello", why="it is not an object")
    return values
