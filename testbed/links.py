# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Links between two namespaces: `tc netem` over veth where the kernel has it, else satchel-link.

A link joins a leaf (home, a hotspot, the client) to a core (the Internet, a hotspot); `up` is
the direction from the leaf to the core. Both implementations are behind one protocol, and the
tests hold them to one contract. A wire is a veth pair without any emulation.

Bytes are those of whole IP packets, without a link header. Counters count what arrived at the
far end, and what did not.
"""

from __future__ import annotations

import contextlib
import json
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from satchel.errors import UnsupportedError, UsageError
from testbed import namespaces
from testbed.emulator import Emulator
from testbed.namespaces import TestbedFailed, ip, run_tool

MTU = 1500
ETHERNET_HEADER = 14
QUEUE_SECONDS = 0.1
QUEUE_FLOOR = 32 * 1024
NETEM_UNLIMITED = 100_000
NETEM_FASTEST = 100_000_000_000
"""bit/s: a rate that delays nothing. Only packets of a link with a rate keep their order."""

HARDWARE = "02:00:00:00:00:01"

Way = Literal["up", "down"]
WAYS: tuple[Way, Way] = ("up", "down")


@dataclass(frozen=True)
class Shape:
    """What a link does to packets in one direction.

    rate:   bit/s; 0: unlimited
    delay:  seconds, one way
    jitter: seconds; uniform in [-jitter, +jitter] on top of the delay, order kept
    loss:   fraction of packets, 0 to 1
    queue:  bytes that may wait for transmission; 0: unlimited
    """

    rate: int = 0
    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    queue: int = 0

    def __post_init__(self) -> None:
        times = math.isfinite(self.delay) and math.isfinite(self.jitter)
        least = min(self.rate, self.delay, self.jitter, self.queue)
        if not times or least < 0 or not 0 <= self.loss <= 1:
            raise UsageError(f"no link can be {self}", why="a value is out of range")


def queue_for(rate: int) -> int:
    """The queue that a link of this rate gets by default: 0.1 s of it, at least 32 KiB."""
    return max(round(rate * QUEUE_SECONDS / 8), QUEUE_FLOOR)


@dataclass(frozen=True)
class Counters:
    """Of one direction since the link was made: delivered packets and bytes, lost packets."""

    packets: int = 0
    bytes: int = 0
    drops: int = 0

    def __add__(self, other: Counters) -> Counters:
        return Counters(
            self.packets + other.packets, self.bytes + other.bytes, self.drops + other.drops
        )

    def __sub__(self, other: Counters) -> Counters:
        return Counters(
            self.packets - other.packets, self.bytes - other.bytes, self.drops - other.drops
        )


LinkCounters = dict[Way, Counters]


@dataclass(frozen=True)
class End:
    """Where a link's device is: a namespace's name and an interface's."""

    namespace: str
    interface: str


class Link(Protocol):
    """One link. Any thread may call any method; TestbedFailed when the kernel refuses."""

    name: str

    def shape(self, *, up: Shape | None = None, down: Shape | None = None) -> None:
        """Change one direction or both, from now on. UnsupportedError on a wire."""

    def cut(self) -> None:
        """Lose every packet, silently, as a link does that somebody stands in."""

    def restore(self) -> None:
        """End a cut."""

    def counters(self) -> LinkCounters: ...

    def close(self) -> None:
        """Both devices are gone on return, with their addresses and routes."""


class LinkMaker(Protocol):
    """One implementation of emulated links."""

    kind: str

    def connect(self, name: str, leaf: End, core: End, up: Shape, down: Shape) -> Link:
        """Make both devices, without addresses and not yet up. Raises TestbedFailed."""

    def close(self) -> None:
        """All links that were made are gone on return."""


class TunLinks:
    """Links of one satchel-link process."""

    kind = "tun"

    def __init__(self) -> None:
        self.emulator = Emulator()

    def connect(self, name: str, leaf: End, core: End, up: Shape, down: Shape) -> TunLink:
        devices = [
            word for end in (leaf, core) for word in (_netns_path(end.namespace), end.interface)
        ]
        self.emulator.request("add", name, *devices, zlib.crc32(name.encode()))
        return TunLink(self.emulator, name, up, down)

    def close(self) -> None:
        self.emulator.close()


class _ShapedLink(ABC):
    """How a link is meant to be; `_send` makes it so."""

    def __init__(self, name: str, up: Shape, down: Shape) -> None:
        self.name = name
        self._shapes: dict[Way, Shape] = {"up": up, "down": down}
        self._working = True

    def shape(self, *, up: Shape | None = None, down: Shape | None = None) -> None:
        self._shapes = {"up": up or self._shapes["up"], "down": down or self._shapes["down"]}
        self._send()

    def cut(self) -> None:
        self._working = False
        self._send()

    def restore(self) -> None:
        self._working = True
        self._send()

    @abstractmethod
    def _send(self) -> None: ...


class TunLink(_ShapedLink):
    """Two TUN devices of a satchel-link process."""

    def __init__(self, emulator: Emulator, name: str, up: Shape, down: Shape) -> None:
        super().__init__(name, up, down)
        self._emulator = emulator
        self._send()

    def counters(self) -> LinkCounters:
        numbers = self._emulator.request("stats", self.name)
        return {"up": Counters(*numbers[:3]), "down": Counters(*numbers[4:7])}

    def close(self) -> None:
        self._emulator.request("remove", self.name)

    def _send(self) -> None:
        for way, shape in self._shapes.items():
            delay, jitter = round(shape.delay * 1e9), round(shape.jitter * 1e9)
            values = (shape.rate, delay, jitter, shape.loss, shape.queue, int(self._working))
            self._emulator.request("set", self.name, way, *values)


class Wire:
    """A veth pair: as fast as the machine.

    Both ends have one hardware address and never ask for the other's, so that nothing is on the
    wire, and in the counters, but IP packets.
    """

    def __init__(self, name: str, leaf: End, core: End) -> None:
        self.name = name
        self._leaf = leaf
        self._core = core
        ip(
            *f"link add {leaf.interface} address {HARDWARE} netns {leaf.namespace}".split(),
            *f"type veth peer name {core.interface} address {HARDWARE}".split(),
            *f"netns {core.namespace}".split(),
        )
        for end in (leaf, core):
            ip("-n", end.namespace, *f"link set {end.interface} arp off".split())

    def shape(self, *, up: Shape | None = None, down: Shape | None = None) -> None:
        raise UnsupportedError(f"cannot shape {self.name}", why="it is a wire")

    def cut(self) -> None:
        ip("-n", self._core.namespace, "link", "set", self._core.interface, "down")

    def restore(self) -> None:
        ip("-n", self._core.namespace, "link", "set", self._core.interface, "up")

    def counters(self) -> LinkCounters:
        return {"up": _received(self._core), "down": _received(self._leaf)}

    def close(self) -> None:
        ip("-n", self._leaf.namespace, "link", "delete", self._leaf.interface)


class NetemLinks:
    """Links of veth pairs with a netem queue at each end."""

    kind = "netem"

    def connect(self, name: str, leaf: End, core: End, up: Shape, down: Shape) -> NetemLink:
        return NetemLink(name, leaf, core, up, down)

    def close(self) -> None:
        """The namespaces take the devices with them."""


class NetemLink(_ShapedLink):
    """A wire whose ends send through `tc netem`."""

    def __init__(self, name: str, leaf: End, core: End, up: Shape, down: Shape) -> None:
        super().__init__(name, up, down)
        self._wire = Wire(name, leaf, core)
        self._senders: dict[Way, End] = {"up": leaf, "down": core}
        for end in self._senders.values():
            ip("-n", end.namespace, *f"link set {end.interface} gso_max_segs 1".split())
        self._send()

    def counters(self) -> LinkCounters:
        received = self._wire.counters()
        return {
            way: replace(received[way], drops=_netem_drops(end))
            for way, end in self._senders.items()
        }

    def close(self) -> None:
        self._wire.close()

    def _send(self) -> None:
        for way, end in self._senders.items():
            shape = self._shapes[way]
            wanted = shape if self._working else replace(shape, loss=1.0)
            device = ["tc", "-n", end.namespace, "qdisc", "replace", "dev", end.interface, "root"]
            run_tool([*device, *netem_arguments(wanted)])


def netem_arguments(shape: Shape) -> list[str]:
    """What `tc qdisc` is told. netem's limit counts packets, in its queue and under way alike."""
    flying = shape.rate * (shape.delay + shape.jitter) / 8
    bounded = shape.rate > 0 and shape.queue > 0
    limit = int((shape.queue + flying) / MTU) + 1 if bounded else NETEM_UNLIMITED
    arguments = ["netem", "limit", str(limit)]
    arguments += ["delay", f"{shape.delay * 1e6:.0f}us", f"{shape.jitter * 1e6:.0f}us"]
    arguments += ["loss", f"{shape.loss * 100:.6g}%"]
    return [*arguments, "rate", f"{shape.rate or NETEM_FASTEST}bit", str(-ETHERNET_HEADER)]


def netem_available() -> bool:
    """Whether the kernel has sch_netem, tried in a namespace of its own."""
    name = namespaces.new_prefix() + "probe"
    namespaces.create([name])
    try:
        run_tool(["tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"])
    except TestbedFailed:
        return False
    finally:
        namespaces.delete([name])
    return True


def open_links(kind: str = "auto") -> LinkMaker:
    """The implementation called `kind` (tun, netem), or with `auto` the one for this kernel."""
    makers: dict[str, Callable[[], LinkMaker]] = {"tun": TunLinks, "netem": NetemLinks}
    if kind == "auto":
        kind = "netem" if netem_available() else "tun"
    if kind not in makers:
        raise UsageError(f"no links are called {kind}", fix="say auto, tun or netem")
    return makers[kind]()


def _received(end: End) -> Counters:
    text = ip("-n", end.namespace, *f"-s -j link show dev {end.interface}".split())
    received = json.loads(text)[0]["stats64"]["rx"]
    packets = received["packets"]
    return Counters(packets, received["bytes"] - ETHERNET_HEADER * packets, received["dropped"])


def _netem_drops(end: End) -> int:
    text = run_tool(["tc", "-n", end.namespace, "-s", "-j", "qdisc", "show", "dev", end.interface])
    with contextlib.suppress(StopIteration):
        return int(next(item["drops"] for item in json.loads(text) if item["kind"] == "netem"))
    return 0


def _netns_path(name: str) -> str:
    return str(namespaces.FOLDER / name)
