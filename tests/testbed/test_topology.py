# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The topology as data: nothing is made here."""

import ipaddress
import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from satchel.errors import NotFoundError, UsageError
from testbed import PAPER, PROFILES, TODAY, LinkProfile, Shape, Topology
from testbed.links import netem_arguments, queue_for

EVERY_PROFILE = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)


def test_the_profiles_are_those_of_the_papers_and_of_today() -> None:
    assert (PAPER.home_up, PAPER.hotspot, PAPER.wifi) == (256_000, 1_500_000, 11_000_000)
    assert (PAPER.internet_rtt, PAPER.wifi_rtt) == (0.060, 0.005)
    assert (TODAY.home_up, TODAY.hotspot, TODAY.wifi) == (20_000_000, 100_000_000, 200_000_000)
    assert (TODAY.internet_rtt, TODAY.wifi_rtt) == (0.030, 0.005)


@EVERY_PROFILE
def test_client_and_home_are_both_round_trips_apart(profile: LinkProfile) -> None:
    links = (profile.wifi_link(), profile.hotspot_link(), profile.home_link())
    total = sum(up.delay + down.delay for up, down in links)
    assert total == pytest.approx(profile.internet_rtt + profile.wifi_rtt)


@EVERY_PROFILE
def test_every_shaped_link_has_a_queue_of_a_tenth_of_a_second_at_least(
    profile: LinkProfile,
) -> None:
    for plan in [*Topology(profile).fixed_links(), Topology(profile).wifi("a")]:
        for shape in plan.shapes or ():
            assert shape.queue == queue_for(shape.rate) >= shape.rate / 80


def test_addresses_are_in_their_site_and_the_client_s_differ_by_hotspot() -> None:
    topology = Topology(TODAY, ("a", "b", "c"))
    clients = [topology.wifi(hotspot).leaf.address for hotspot in topology.hotspots]
    assert len(set(clients)) == 3
    for hotspot, address in zip(topology.hotspots, clients, strict=True):
        assert ipaddress.ip_address(address) in ipaddress.ip_network(topology.site(hotspot))


def test_no_interface_is_made_twice_on_a_host() -> None:
    topology = Topology(TODAY)
    plans = [*topology.fixed_links(), topology.wifi("a"), topology.wifi("b")]
    cores = [(plan.core.host, plan.core.interface) for plan in plans]
    leaves = [(plan.leaf.host, plan.leaf.interface) for plan in plans[:-1]]
    for one, other in itertools.combinations(cores + leaves, 2):
        assert one != other


def test_an_unknown_hotspot_is_named_with_those_that_are() -> None:
    with pytest.raises(NotFoundError, match="no hotspot z; there are a, b"):
        Topology(TODAY).wifi("z")


@pytest.mark.parametrize("hotspots", [(), ("a", "a")])
def test_hotspots_are_at_least_one_and_distinct(hotspots: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        Topology(TODAY, hotspots)


def test_netem_is_told_the_same_shape() -> None:
    shape = Shape(rate=256_000, delay=0.03, jitter=0.002, loss=0.015, queue=32_000)
    told = "netem limit 23 delay 30000us 2000us loss 1.5% rate 256000bit -14"
    assert " ".join(netem_arguments(shape)) == told
    unlimited = "netem limit 100000 delay 0us 0us loss 0% rate 100000000000bit -14"
    assert " ".join(netem_arguments(Shape())) == unlimited


SECONDS = st.floats()  # nan, infinite and below zero, too
RATES = st.integers(-1, 2**40)
PROFILES_OF_ALL_KINDS = st.builds(
    LinkProfile, st.just("any"), RATES, RATES, RATES, RATES, SECONDS, SECONDS
)


@given(PROFILES_OF_ALL_KINDS)
def test_a_profile_has_links_that_can_be_made_or_none(profile: LinkProfile) -> None:
    try:
        links = [profile.home_link(), profile.hotspot_link(), profile.wifi_link()]
    except UsageError:
        return
    for shape in itertools.chain(*links):
        assert shape.rate >= 0
        assert 0 <= shape.delay < math.inf
        assert shape.queue == queue_for(shape.rate)
    away = sum(up.delay + down.delay for up, down in links)
    assert away == pytest.approx(profile.internet_rtt + profile.wifi_rtt)


@given(st.integers(1, 254), st.data())
def test_every_host_reaches_every_address_whatever_the_number_of_hotspots(
    count: int, data: st.DataObject
) -> None:
    names = tuple(f"h{number}" for number in range(count))
    topology = Topology(TODAY, names)
    plans = [*topology.fixed_links(), topology.wifi(data.draw(st.sampled_from(names)))]
    ends = [(plan.leaf, plan.core) for plan in plans]
    # A hotspot has one address on its wire and on its Wi-Fi.
    away = [(one.host, other) for pair in ends for one, other in (pair, pair[::-1])]
    here = {place.address: place.host for pair in ends for place in pair}
    host = data.draw(st.sampled_from([*topology.hosts]))
    wanted = data.draw(st.sampled_from(sorted(here)))
    assume(host != "client")  # its routes are those of where it is: tests of the bed
    for _ in range(8):
        if here[wanted] == host:
            return
        beside = [other for one, other in away if one == host]
        if wanted in {place.address for place in beside}:
            host = here[wanted]
        else:
            host = here[hop_towards(wanted, topology.routes(host))]
    pytest.fail(f"{wanted} is too far away")


def hop_towards(address: str, routes: list[str]) -> str:
    """The next hop of the most specific route, as the kernel takes it."""
    matching = []
    for route in routes:
        network, _, hop = route.partition(" via ")
        if network.startswith("unreachable "):
            continue
        network = "0.0.0.0/0" if network == "default" else network
        parsed = ipaddress.ip_network(network)
        if ipaddress.ip_address(address) in parsed:
            matching.append((parsed.prefixlen, hop))
    return max(matching)[1]
