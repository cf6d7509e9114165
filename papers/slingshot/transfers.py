# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Eager transfers of a service's whole state, as one plain TCP connection would send it.

Over the paper's uplink such a transfer takes more than an hour, and nothing but the link works. So
each service has a testbed of its own for it, in which nothing else happens. Its transfers go on
while the service is evaluated elsewhere.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from bench import processors
from testbed import Host, LinkProfile, Testbed, measure, topology

RECEIVER, HOTSPOT = "surrogate-b", "b"

PREFIX_SHARE = 0.2
"""Of the patience: how long a prefix is sent."""


@dataclass(frozen=True)
class Transfer:
    """Bytes over a link: the seconds they take, and how many of them were really sent."""

    seconds: float
    size: int
    sent: int

    @property
    def how(self) -> str:
        """What a figure's name has to say about it."""
        if self.sent == self.size:
            return "all sent"
        return f"NOT all sent: bytes over the rate of the first {self.sent / 1e6:.1f} MB"


def transfer(sender: Host, receiver: Host, size: int, nominal: float, patience: float) -> Transfer:
    """Send that many bytes, or a prefix. nominal: the link's rate in bit/s, by which it is known
    which; patience: seconds that may be spent on all."""
    whole = size * 8 / nominal <= patience
    sent = size if whole else int(patience * PREFIX_SHARE * nominal / 8)
    return Transfer(size * 8 / measure.goodput(sender, receiver, sent), size, sent)


@dataclass(frozen=True)
class EagerTransfers:
    """The transfers of one service to surrogate B: from the client over its Wi-Fi, then from home.
    Futures, as the latter may take hours; they raise what the transfer raised."""

    near: Future[Transfer]
    far: Future[Transfer]


@contextlib.contextmanager
def under_way(
    profile: LinkProfile, sizes: Mapping[str, int], patience: float
) -> Iterator[dict[str, EagerTransfers]]:
    """Begin the transfers of each service. At the end those that go on are cut off.

    sizes: bytes by service; patience: see `transfer`. Raises what Testbed.start raises."""
    with contextlib.ExitStack() as beds:
        begun: dict[str, EagerTransfers] = {}
        for service, size in sizes.items():
            bed = beds.enter_context(processors.apart(profile))
            bed.client.move(HOTSPOT)
            begun[service] = eager = EagerTransfers(Future(), Future())
            argv = (bed, profile, size, patience, eager)
            threading.Thread(target=_send, args=argv, daemon=True).start()
        yield begun


def _send(
    bed: Testbed, profile: LinkProfile, size: int, patience: float, eager: EagerTransfers
) -> None:
    receiver = bed.host(RECEIVER)
    ways = (
        (eager.near, bed.client, profile.wifi),
        (eager.far, bed.host(topology.HOME), profile.home_up),
    )
    for future, sender, nominal in ways:
        try:
            future.set_result(transfer(sender, receiver, size, nominal, patience))
        except Exception as error:
            future.set_exception(error)
