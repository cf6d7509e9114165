# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two hosts with one link between them, and whole testbeds."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from testbed import Host, Link, Shape, Testbed, namespaces
from testbed.links import End, LinkMaker, netem_available, open_links
from testbed.namespaces import ip
from tests.needs import lacking

LEAF = "192.168.7.2"
CORE = "192.168.7.1"


@dataclass(frozen=True)
class Pair:
    """A leaf and a core with one link; it carries everything at once until it is shaped."""

    leaf: Host
    core: Host
    link: Link


@pytest.fixture(params=["tun", "netem"])
def maker(request: pytest.FixtureRequest) -> Iterator[LinkMaker]:
    """Each implementation of links that this kernel allows."""
    if reason := lacking("netns") or lacking("tun"):
        pytest.skip(reason)
    if request.param == "netem" and not netem_available():
        pytest.skip("needs sch_netem: the kernel has none")
    made = open_links(request.param)
    yield made
    made.close()


@pytest.fixture
def pair(maker: LinkMaker) -> Iterator[Pair]:
    prefix = namespaces.new_prefix()
    leaf, core = End(f"{prefix}leaf", "link0"), End(f"{prefix}core", "link0")
    names = [leaf.namespace, core.namespace]
    namespaces.create(names)
    try:
        link = maker.connect("pair", leaf, core, Shape(), Shape())
        for end, here, there in ((leaf, LEAF, CORE), (core, CORE, LEAF)):
            setting = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
            Host("", end.namespace, None).run(["sh", "-c", setting])
            ip(
                "-n",
                end.namespace,
                batch=[
                    f"address add {here} peer {there} dev link0",
                    "link set link0 txqueuelen 4096 up",
                ],
            )
        yield Pair(Host("leaf", leaf.namespace, LEAF), Host("core", core.namespace, CORE), link)
        link.close()
    finally:
        namespaces.delete(names)


@pytest.fixture
def bed() -> Iterator[Testbed]:
    """A testbed of today, with the client at hotspot a."""
    with Testbed() as started:
        yield started
