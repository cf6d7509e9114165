# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a testbed looks like, as data: profiles, hosts, links, addresses, routes. Makes nothing.

    home ---- internet ---- hotspot-a ---- surrogate-a
                   |             :
                   |           client        (Wi-Fi, to one hotspot at a time)
                   |
                   +------- hotspot-b ---- surrogate-b

Half of the Internet's round-trip time is on home's link and half on each hotspot's, so that any
two sites are a whole one apart; a client is that and the Wi-Fi's away from home.

Site number N (hotspot a is 1) has the addresses 10.10.N.x: 1 the router, 2 the surrogate, 3 the
client. Every link is point to point, with addresses of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from satchel.errors import NotFoundError, UsageError
from testbed.links import Shape, queue_for

HOME = "home"
INTERNET = "internet"
CLIENT = "client"


@dataclass(frozen=True)
class LinkProfile:
    """Rates in bit/s, times in seconds. Wi-Fi and hotspots are the same in both directions."""

    name: str
    home_up: int
    home_down: int
    hotspot: int
    wifi: int
    internet_rtt: float
    wifi_rtt: float

    def home_link(self) -> tuple[Shape, Shape]:
        """Up and down."""
        delay = self.internet_rtt / 4
        return _shape(self.home_up, delay), _shape(self.home_down, delay)

    def hotspot_link(self) -> tuple[Shape, Shape]:
        """Up and down."""
        return (_shape(self.hotspot, self.internet_rtt / 4),) * 2

    def wifi_link(self) -> tuple[Shape, Shape]:
        """Up and down."""
        return (_shape(self.wifi, self.wifi_rtt / 2),) * 2


PAPER = LinkProfile(
    name="paper",
    home_up=256_000,
    home_down=1_500_000,
    hotspot=1_500_000,
    wifi=11_000_000,
    internet_rtt=0.060,
    wifi_rtt=0.005,
)
"""Su and Flinn's hotspots of 2005; home's download rate is ours."""

TODAY = LinkProfile(
    name="today",
    home_up=20_000_000,
    home_down=100_000_000,
    hotspot=100_000_000,
    wifi=200_000_000,
    internet_rtt=0.030,
    wifi_rtt=0.005,
)

PROFILES = {profile.name: profile for profile in (PAPER, TODAY)}


class Place(NamedTuple):
    """One end of a planned link."""

    host: str
    interface: str
    address: str


@dataclass(frozen=True)
class LinkPlan:
    """A link to be made: from leaf to core. shapes: (up, down); None: a wire."""

    name: str
    leaf: Place
    core: Place
    shapes: tuple[Shape, Shape] | None


@dataclass(frozen=True)
class Topology:
    """One home, one Internet, one client, and hotspots that have a surrogate each."""

    profile: LinkProfile
    hotspots: tuple[str, ...] = ("a", "b")

    def __post_init__(self) -> None:
        if len(set(self.hotspots)) != len(self.hotspots) or not 0 < len(self.hotspots) < 255:
            raise UsageError(f"no topology has the hotspots {self.hotspots}")

    @property
    def routers(self) -> tuple[str, ...]:
        """Hosts that forward packets."""
        return (INTERNET, *(hotspot_host(name) for name in self.hotspots))

    @property
    def hosts(self) -> tuple[str, ...]:
        surrogates = (surrogate_host(name) for name in self.hotspots)
        return (HOME, *self.routers, *surrogates, CLIENT)

    def site(self, hotspot: str) -> str:
        """The network of a hotspot. Raises NotFoundError."""
        return f"10.10.{self._number(hotspot)}.0/24"

    def fixed_links(self) -> list[LinkPlan]:
        """All links but Wi-Fi."""
        home = Place(HOME, "inet0", "10.0.0.2")
        internet = Place(INTERNET, "home0", "10.0.0.1")
        plans = [LinkPlan("home", home, internet, self.profile.home_link())]
        for hotspot in self.hotspots:
            plans += self._site_links(hotspot)
        return plans

    def wifi(self, hotspot: str) -> LinkPlan:
        """The client's link to a hotspot. Raises NotFoundError."""
        number = self._number(hotspot)
        client = Place(CLIENT, "wifi0", f"10.10.{number}.3")
        router = Place(hotspot_host(hotspot), "wifi0", f"10.10.{number}.1")
        return LinkPlan(f"wifi-{hotspot}", client, router, self.profile.wifi_link())

    def routes(self, host: str) -> list[str]:
        """Arguments of `ip route add`, beyond those that the host's addresses imply."""
        if host == INTERNET:
            numbers = range(1, len(self.hotspots) + 1)
            return [f"10.10.{number}.0/24 via 10.0.{number}.2" for number in numbers]
        if host == HOME:
            return ["default via 10.0.0.1"]
        for number, hotspot in enumerate(self.hotspots, start=1):
            if host == surrogate_host(hotspot):
                return [f"default via 10.10.{number}.1"]
            if host == hotspot_host(hotspot):
                return [f"default via 10.0.{number}.1", f"unreachable 10.10.{number}.0/24"]
        return []

    def _site_links(self, hotspot: str) -> list[LinkPlan]:
        number = self._number(hotspot)
        router, surrogate = hotspot_host(hotspot), surrogate_host(hotspot)
        outside = Place(router, "inet0", f"10.0.{number}.2")
        internet = Place(INTERNET, f"hotspot{number}", f"10.0.{number}.1")
        inside = Place(router, "wire0", f"10.10.{number}.1")
        machine = Place(surrogate, "wire0", f"10.10.{number}.2")
        return [
            LinkPlan(router, outside, internet, self.profile.hotspot_link()),
            LinkPlan(surrogate, machine, inside, None),
        ]

    def _number(self, hotspot: str) -> int:
        if hotspot not in self.hotspots:
            raise NotFoundError(
                f"there is no hotspot {hotspot}", fix=f"there are {', '.join(self.hotspots)}"
            )
        return self.hotspots.index(hotspot) + 1


def hotspot_host(hotspot: str) -> str:
    return f"hotspot-{hotspot}"


def surrogate_host(hotspot: str) -> str:
    return f"surrogate-{hotspot}"


def _shape(rate: int, delay: float) -> Shape:
    return Shape(rate=rate, delay=delay, queue=queue_for(rate))
