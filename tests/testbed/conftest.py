# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two hosts with one link between them, and whole testbeds."""

from collections.abc import Iterator

import pytest

from testbed import Testbed, measure
from testbed.links import LinkMaker, netem_available, open_links
from testbed.measure import Pair
from tests.needs import lacking


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
    with measure.pair(maker) as made:
        yield made


@pytest.fixture
def bed() -> Iterator[Testbed]:
    """A testbed of today, with the client at hotspot a."""
    with Testbed() as started:
        yield started
