# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A topology made real on this machine, and taken away again whatever happens.

    with Testbed(TODAY) as bed:
        bed.host("surrogate-a").popen(["satchel-surrogate", "serve"], log=log)
        bed.client.move("b")
        bed.counters()["wifi-b"]["down"].bytes

Everything that was made has this process's mark (testbed.namespaces): what a killed process
could not take away, the next testbed does.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from satchel.errors import NotFoundError, StateError
from testbed import namespaces
from testbed.links import Counters, End, Link, LinkCounters, LinkMaker, Wire, open_links
from testbed.namespaces import ip
from testbed.topology import CLIENT, INTERNET, TODAY, LinkPlan, LinkProfile, Place, Topology

KERNEL = Path("/proc/sys/net")

KERNEL_SETTINGS = {
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
    "ipv4/tcp_no_metrics_save": "1",
}
"""In every namespace: no packets but ours, every connection a new one."""

CONGESTION_CONTROLS = ("cubic", "reno")
"""The first that the kernel allows in a new namespace, whatever the machine's own default is."""

ROUTER_SETTINGS = {"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "1"}

DEVICE_QUEUE = 4096
"""Packets that the kernel holds for a link whose emulator has not looked yet."""

STOP_GRACE = 10.0
"""Seconds that all processes together have to end after SIGTERM."""


def prepare(namespace: str, *, forward: bool = False) -> None:
    """Give a fresh namespace its kernel settings and its loopback; with `forward` it routes."""
    settings = KERNEL_SETTINGS | (ROUTER_SETTINGS if forward else {})
    namespaces.inside(namespace, functools.partial(_apply, settings))
    ip("-n", namespace, "link", "set", "lo", "up")


def address_ends(leaf: tuple[End, str], core: tuple[End, str]) -> None:
    """Give the two devices of a link their addresses, and bring them up."""
    for (end, here), (_, there) in ((leaf, core), (core, leaf)):
        ip(
            "-n",
            end.namespace,
            batch=[
                f"address add {here} peer {there} dev {end.interface}",
                f"link set {end.interface} txqueuelen {DEVICE_QUEUE} up",
            ],
        )


class Host:
    """One namespace, and the processes that were started in it. ssh_port: of its sshd. processors:
    which of them what is started here may use, with all that this starts; None: every one."""

    ssh_port = 2222

    def __init__(self, name: str, namespace: str, address: str | None) -> None:
        self.name = name
        self.namespace = namespace
        self.processors: frozenset[int] | None = None
        self._address = address
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """Its IPv4 address towards the others. StateError: the client is at no hotspot."""
        if self._address is None:
            raise StateError(f"{self.name} has no address", why="it is at no hotspot")
        return self._address

    @property
    def prefix(self) -> list[str]:
        """What to write before a command to run it here. The process keeps its pid."""
        enter = ["nsenter", f"--net={namespaces.FOLDER / self.namespace}", "--"]
        if self.processors is None:
            return enter
        return [*enter, "taskset", "--cpu-list", ",".join(map(str, sorted(self.processors)))]

    def popen(self, argv: Sequence[str | Path], *, log: Path) -> subprocess.Popen[bytes]:
        """Start a program here, in a session of its own. Its output is appended to `log`.

        It is ended with the testbed if it is not before: SIGTERM, then SIGKILL.
        """
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self.prefix, *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def run(
        self, argv: Sequence[str | Path], *, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a short program here to its end, whatever that is; its output is in the result."""
        return subprocess.run(
            [*self.prefix, *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def socket(self, kind: socket.SocketKind) -> socket.socket:
        """A fresh IPv4 socket of this host, for use by this process."""
        return namespaces.inside(self.namespace, lambda: socket.socket(socket.AF_INET, kind))

    def crash(self) -> None:
        """SIGKILL for everything that runs here, like a power cut. The host can be used again."""
        namespaces.kill_processes([self.namespace])
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def stop_processes(self) -> list[subprocess.Popen[bytes]]:
        """SIGTERM for what was started here, last first; returns them, to be waited for."""
        stopping = [process for process in reversed(self._processes) if process.poll() is None]
        for process in stopping:
            process.terminate()
        self._processes.clear()
        return stopping


class Client(Host):
    """The host that moves. It has another address at every hotspot, and none in between."""

    def __init__(self, bed: Testbed, namespace: str) -> None:
        super().__init__(CLIENT, namespace, None)
        self._bed = bed
        self.hotspot: str | None = None

    def move(self, hotspot: str) -> None:
        """Leave the present hotspot, if any, and join this one.

        Connections from the old address hear nothing more, and nobody tells them.
        """
        self._bed.topology.wifi(hotspot)
        self.leave()
        self.join(hotspot)

    def leave(self) -> None:
        """Out of reach of any Wi-Fi. Nothing, where there is none."""
        if self.hotspot is None:
            return
        self._bed.unplug(f"wifi-{self.hotspot}")
        self.hotspot = None
        self._address = None

    def join(self, hotspot: str) -> None:
        """Raises StateError while at a hotspot, NotFoundError for one that is not there."""
        if self.hotspot is not None:
            raise StateError(f"cannot join hotspot {hotspot}", why=f"still at {self.hotspot}")
        plan = self._bed.topology.wifi(hotspot)
        self._bed.plug(plan)
        ip("-n", self.namespace, *f"route add default via {plan.core.address}".split())
        self.hotspot = hotspot
        self._address = plan.leaf.address


class Testbed:
    """A running topology. One thread starts, moves and closes it; any thread reads counters."""

    __test__ = False

    def __init__(
        self,
        profile: LinkProfile = TODAY,
        *,
        hotspots: tuple[str, ...] = ("a", "b"),
        links: str = "auto",
    ) -> None:
        """Nothing is made yet. The client starts at the first hotspot. links: auto, tun, netem."""
        self.topology = Topology(profile, hotspots)
        self._at = hotspots[0]
        self._kind = links
        self._prefix = namespaces.new_prefix()
        self._hosts: dict[str, Host] = {}
        self._links: dict[str, Link] = {}
        self._closed: dict[str, LinkCounters] = {}
        self._maker: LinkMaker | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Make everything. On failure, and on an interrupt, nothing is left.

        Raises UnsupportedError where this host cannot or this user may not, else TestbedFailed.
        """
        namespaces.require_privileges()
        namespaces.clean()
        try:
            self._maker = open_links(self._kind)
            self._make_hosts()
            for plan in self.topology.fixed_links():
                self.plug(plan)
            for host in self._hosts.values():
                if routes := self.topology.routes(host.name):
                    ip("-n", host.namespace, batch=[f"route add {route}" for route in routes])
            self.client.join(self._at)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Take everything away, processes first. Interrupts wait. Closing twice is nothing."""
        with _interrupts_wait():
            stopping = [p for host in self._hosts.values() for p in host.stop_processes()]
            deadline = time.monotonic() + STOP_GRACE
            for process in stopping:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(deadline - time.monotonic(), 0))
            namespaces.end_processes([host.namespace for host in self._hosts.values()])
            for process in stopping:
                process.wait()
            if self._maker is not None:
                self._maker.close()
            namespaces.delete([host.namespace for host in self._hosts.values()])
            self._hosts.clear()
            self._links.clear()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def maker(self) -> LinkMaker:
        """What makes the links; its `kind` is tun or netem."""
        if self._maker is None:
            raise StateError("the testbed has not started")
        return self._maker

    @property
    def hosts(self) -> dict[str, Host]:
        """All hosts by name."""
        return dict(self._hosts)

    def host(self, name: str) -> Host:
        """Raises NotFoundError."""
        if name not in self._hosts:
            known = ", ".join(self._hosts) or "none: the testbed has not started"
            raise NotFoundError(f"there is no host {name}", fix=f"there are {known}")
        return self._hosts[name]

    @property
    def client(self) -> Client:
        host = self.host(CLIENT)
        assert isinstance(host, Client)
        return host

    def link(self, name: str) -> Link:
        """home, hotspot-X, surrogate-X (a wire), or wifi-X while the client is there."""
        with self._lock:
            if name not in self._links:
                raise NotFoundError(
                    f"there is no link {name}", fix=f"there are {', '.join(self._links)}"
                )
            return self._links[name]

    def counters(self) -> dict[str, LinkCounters]:
        """Of every link since the start, those included that the client has left."""
        with self._lock:
            result = dict(self._closed)
            for name, link in self._links.items():
                result[name] = _add(link.counters(), self._closed.get(name))
            return result

    def plug(self, plan: LinkPlan) -> None:
        """Make a link with its addresses, and bring it up."""
        leaf, core = self._end(plan.leaf), self._end(plan.core)
        link: Link
        if plan.shapes is None:
            link = Wire(plan.name, leaf, core)
        else:
            link = self.maker.connect(plan.name, leaf, core, *plan.shapes)
        with self._lock:
            self._links[plan.name] = link
        address_ends((leaf, plan.leaf.address), (core, plan.core.address))

    def unplug(self, name: str) -> None:
        """Remove a link; its counters are kept."""
        link = self.link(name)
        with self._lock:
            self._closed[name] = _add(link.counters(), self._closed.get(name))
            del self._links[name]
            link.close()

    def _make_hosts(self) -> None:
        addresses = {plan.leaf.host: plan.leaf.address for plan in self.topology.fixed_links()}
        addresses[INTERNET] = self.topology.fixed_links()[0].core.address
        for name in self.topology.hosts:
            namespace = self._prefix + name
            if name == CLIENT:
                self._hosts[name] = Client(self, namespace)
            else:
                self._hosts[name] = Host(name, namespace, addresses[name])
        names = [host.namespace for host in self._hosts.values()]
        namespaces.create(names)
        for host in self._hosts.values():
            prepare(host.namespace, forward=host.name in self.topology.routers)

    def _end(self, place: Place) -> End:
        return End(self.host(place.host).namespace, place.interface)


def _add(counters: LinkCounters, earlier: LinkCounters | None) -> LinkCounters:
    before = earlier or {}
    return {way: count + before.get(way, Counters()) for way, count in counters.items()}


def _apply(settings: Mapping[str, str]) -> None:
    """In the calling thread's namespace. A kernel without a setting's subsystem goes without."""
    for name, value in settings.items():
        with contextlib.suppress(FileNotFoundError):
            (KERNEL / name).write_text(value, encoding="ascii")
    for name in CONGESTION_CONTROLS:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            (KERNEL / "ipv4/tcp_congestion_control").write_text(name, encoding="ascii")
            return


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Signals that end a program arrive after the block; only where they would be handled."""
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
