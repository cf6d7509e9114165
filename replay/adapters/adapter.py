# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What an adapter does for replay, whatever its protocol is."""

from __future__ import annotations

from typing import Protocol

from replay.operations import Operation


class RequestTemplate(Protocol):
    """A request as a recipe writes it down, by protocol-neutral parts; an adapter leaves alone
    those that its protocol has no place for."""

    @property
    def method(self) -> str:
        """What to do."""

    @property
    def path(self) -> str:
        """With what."""

    @property
    def content_type(self) -> str:
        """What the body is."""

    def payload(self) -> bytes:
        """The body."""


class Adapter(Protocol):
    """Makes two replicas' responses to one operation the same bytes. Stateless, thread-safe."""

    @property
    def kind(self) -> str:
        """The name in recipes and manifests."""

    def label(self, operation: Operation) -> str:
        """What operations like this one are called together; a service has few of them. Never
        raises."""

    def normalise(self, response: bytes, operation: Operation) -> bytes:
        """The response as everybody compares and delivers it.

        What may differ between replicas that did the same (the moment of the response, what belongs
        to the connection) is taken out. Never raises for what a service says: bytes that are no
        response become the adapter's own error response.
        """

    def request(self, asked: RequestTemplate, *, number: int, time_ns: int, seed: int) -> bytes:
        """The payload of the operation that `asked` writes down. Raises UsageError for what this
        protocol cannot say."""
