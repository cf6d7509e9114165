# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of the other side: one declaration makes the caller's stub and the other side's dispatch.

    class Hub:
        @Asked
        def lookup(self, parent: FileId, name: bytes) -> Entry: ...
        @Posted
        def close(self, file: FileId) -> Attributes | None: ...

    entry = hub.lookup(parent, name)     # waits for the answer
    hub.close(closed, file)              # `closed` gets the answer later

The side that answers decodes with `Hub.lookup.arguments`; see `shares/home/calls.py`. mypy compares
parameters and results there, as at the caller.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import cached_property
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    get_type_hints,
    overload,
)
from typing import cast as typing_cast

from satchel.errors import IntegrityError
from shares.node.hub import codec

P = ParamSpec("P")
R = TypeVar("R")

Answered = Callable[[R | OSError | None], None]
"""Gets the result of a posted call, or the refusal; None if the membership ends before."""


class Wait(Protocol):
    """`wire.conversation.waits.Wait`: the time of one wait for the other side."""

    def over(self, patience: float, *, before: float = 0.0, busy: bool = False) -> float: ...
    def seconds(self, *, busy: bool = False) -> float: ...


class HomeLink(Protocol):
    """A node's way to home, which carries payloads in both directions, in order. Thread-safe."""

    @property
    def connected(self) -> bool: ...

    def request(self, payload: bytes, arrived: Callable[[bytes], None] | None = None) -> bytes:
        """Return the reply. arrived: is called with it on the thread that reads, before anything
        that came after it. Raises OSError(EIO) if the other side is not reached."""
        ...

    def post(
        self,
        payload: bytes,
        arrived: Callable[[bytes], None] | None = None,
        failed: Callable[[OSError], None] | None = None,
    ) -> None:
        """Do what Hub.post does, with the bytes of both messages."""
        ...

    def ping(self, heard: Callable[[], None]) -> None:
        """Do what Hub.ping does."""
        ...

    def wait(self) -> Wait:
        """Begin to count the time of a wait for home."""
        ...

    def serve(self, answer: Callable[[bytes, Callable[[bytes], None]], None]) -> None:
        """Have `answer` called with each request of the other side, and a function for its
        reply."""
        ...


class StubOwner(Protocol):
    """The owner of stubs."""

    @property
    def channel(self) -> HomeLink: ...


class Call(Generic[P, R]):
    """A call, as a method declares it: name, arguments in order, result."""

    def __init__(self, declared: Callable[Concatenate[Any, P], R]) -> None:
        self.name = declared.__name__
        self.__doc__ = declared.__doc__
        self._declared = declared

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._declared)

    def encode(self, *arguments: P.args, **named: P.kwargs) -> bytes:
        """Return the payload of such a call."""
        assert not named, "the arguments of a call are sent in order"
        return codec.encode_call(self.name, list(arguments))

    def arguments(self, values: list[Any]) -> list[Any]:
        """Return the values of codec.decode_call with the declared types. Raises IntegrityError."""
        wanted = [hint for name, hint in self._hints.items() if name != "return"]
        if len(wanted) != len(values):
            raise IntegrityError("malformed call of a peer", why=f"{len(values)} arguments")
        return [codec.typed(value, hint) for value, hint in zip(values, wanted, strict=True)]

    def result(self, payload: bytes) -> R:
        """Return the answer of the other side. Raises its refusal, and OSError(EIO) for a malformed
        answer."""
        try:
            return typing_cast(R, codec.decode_reply(payload, self._hints["return"]))
        except IntegrityError as error:
            raise refusal(error) from error


def refusal(error: Exception) -> OSError:
    """Return the error of home's, or EIO for an answer that is malformed."""
    return error if isinstance(error, OSError) else OSError(errno.EIO, str(error))


class BlockingCall(Call[P, R]):
    """A call whose caller waits for the result. Raises OSError."""

    @overload
    def __get__(self, owner: None, kind: object) -> Self: ...
    @overload
    def __get__(self, owner: StubOwner, kind: object) -> Callable[P, R]: ...
    def __get__(self, owner: StubOwner | None, kind: object) -> Self | Callable[P, R]:
        if owner is None:
            return self
        channel = owner.channel

        def ask(*arguments: P.args, **named: P.kwargs) -> R:
            return self.result(channel.request(self.encode(*arguments, **named)))

        return ask


class OneWayCall(Call[P, R]):
    """A call whose caller never waits; its first argument gets the result."""

    @overload
    def __get__(self, owner: None, kind: object) -> Self: ...
    @overload
    def __get__(
        self, owner: StubOwner, kind: object
    ) -> Callable[Concatenate[Answered[R], P], None]: ...
    def __get__(
        self, owner: StubOwner | None, kind: object
    ) -> Self | Callable[Concatenate[Answered[R], P], None]:
        if owner is None:
            return self
        channel = owner.channel

        def post(answered: Answered[R], /, *arguments: P.args, **named: P.kwargs) -> None:
            def take(payload: bytes) -> None:
                found: R | OSError
                try:
                    found = self.result(payload)
                except OSError as error:
                    found = error
                answered(found)

            channel.post(self.encode(*arguments, **named), take, lambda _: answered(None))

        return post
