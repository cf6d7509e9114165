# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What an adapter does for replay, whatever its protocol is."""

from __future__ import annotations

from typing import Protocol

from replay.operations import Operation


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
