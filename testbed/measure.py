# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Measures what a path between two hosts does, from one process with sockets in both.

Arrival times are the kernel's (SO_TIMESTAMPNS), so that neither Python nor a busy machine at
the receiver adds to them. Datagrams are given in bytes of the whole IP packet.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from testbed import namespaces
from testbed.bed import Host, address_ends, prepare
from testbed.links import MTU, End, Link, LinkMaker, Shape

HEADERS = 28
"""Bytes of the IPv4 and UDP headers."""

SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
RECEIVE_BUFFER = 8 << 20
SETTLE = 0.02
"""Seconds until the kernel stamps packets after it has been asked to."""


LEAF = "192.168.7.2"
CORE = "192.168.7.1"


@dataclass(frozen=True)
class Pair:
    """A leaf and a core with one link; it carries everything at once until it is shaped."""

    leaf: Host
    core: Host
    link: Link


@contextlib.contextmanager
def pair(maker: LinkMaker) -> Iterator[Pair]:
    """A link of `maker` between two fresh hosts. Raises what Testbed.start raises."""
    namespaces.require_privileges()
    prefix = namespaces.new_prefix()
    leaf, core = End(f"{prefix}leaf", "link0"), End(f"{prefix}core", "link0")
    names = [leaf.namespace, core.namespace]
    try:
        namespaces.create(names)
        for name in names:
            prepare(name)
        link = maker.connect("pair", leaf, core, Shape(), Shape())
        address_ends((leaf, LEAF), (core, CORE))
        yield Pair(Host("leaf", leaf.namespace, LEAF), Host("core", core.namespace, CORE), link)
        link.close()
    finally:
        namespaces.delete(names)


@dataclass(frozen=True)
class Arrival:
    """One datagram: its number, and when it was sent and arrived (seconds, realtime clock)."""

    number: int
    sent: float
    arrived: float

    @property
    def delay(self) -> float:
        return self.arrived - self.sent


def datagrams(
    sender: Host,
    receiver: Host,
    count: int,
    *,
    size: int = MTU,
    gap: float = 0.0,
    patience: float = 1.0,
) -> list[Arrival]:
    """Send `count` datagrams of `size` bytes, `gap` seconds apart; returns those that arrived.

    patience: how long nothing may arrive, in seconds, until the rest counts as lost.
    """
    arrivals: list[Arrival] = []
    with _receiver(receiver) as sink, sender.socket(socket.SOCK_DGRAM) as source:
        source.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECEIVE_BUFFER)
        source.connect(sink.getsockname())
        sink.settimeout(gap + patience)
        collector = threading.Thread(target=_collect, args=(sink, count, arrivals))
        collector.start()
        padding = bytes(size - HEADERS - 16)
        for number in range(count):
            source.send(struct.pack("=qq", number, time.time_ns()) + padding)
            if gap:
                time.sleep(gap)
        collector.join()
    return arrivals


def delays(
    sender: Host, receiver: Host, *, count: int = 20, size: int = 100, gap: float = 0.01
) -> list[float]:
    """One-way delays of lone datagrams, in seconds, sorted. The clock is one, so they are true."""
    return sorted(
        arrival.delay for arrival in datagrams(sender, receiver, count, size=size, gap=gap)
    )


def rate(sender: Host, receiver: Host, *, count: int, size: int = MTU) -> float:
    """bit/s of IP packets at the far end of a burst that is sent as fast as this machine can."""
    arrivals = datagrams(sender, receiver, count, size=size, patience=1.0)
    span = arrivals[-1].arrived - arrivals[0].arrived
    return (len(arrivals) - 1) * size * 8 / span


def goodput(sender: Host, receiver: Host, size: int) -> float:
    """bit/s of payload over one fresh TCP connection, from the first byte's arrival to the last."""
    with receiver.socket(socket.SOCK_STREAM) as door:
        door.bind((receiver.address, 0))
        door.listen()
        pusher = threading.Thread(target=_push, args=(sender, door.getsockname(), size))
        pusher.start()
        connection, _ = door.accept()
        with connection:
            first = len(connection.recv(1 << 16))
            received, start = first, time.monotonic()
            while chunk := connection.recv(1 << 16):
                received += len(chunk)
            span = time.monotonic() - start
        pusher.join()
    return (received - first) * 8 / span


@contextlib.contextmanager
def _receiver(host: Host) -> Iterator[socket.socket]:
    with host.socket(socket.SOCK_DGRAM) as sink:
        sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        with contextlib.suppress(PermissionError):
            sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        sink.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sink.bind((host.address, 0))
        time.sleep(SETTLE)
        yield sink


def _collect(sink: socket.socket, count: int, arrivals: list[Arrival]) -> None:
    with contextlib.suppress(TimeoutError):
        while len(arrivals) < count:
            data, ancillary, _, _ = sink.recvmsg(MTU, 64)
            number, sent = struct.unpack("=qq", data[:16])
            seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
            arrivals.append(Arrival(number, sent / 1e9, seconds + nanoseconds / 1e9))


def _push(sender: Host, address: tuple[str, int], size: int) -> None:
    with sender.socket(socket.SOCK_STREAM) as source:
        source.connect(address)
        source.sendall(bytes(size))
