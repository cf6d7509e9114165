# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A device that gets another address hears of it from its kernel."""

import threading
from collections.abc import Iterator

import pytest

from testbed import namespaces
from tests.needs import requires
from wire.link.route_watch import RouteWatch

pytestmark = requires("netns")


@pytest.fixture
def device() -> Iterator[str]:
    """A network namespace."""
    name = namespaces.new_prefix() + "device"
    namespaces.create([name])
    yield name
    namespaces.delete([name])


def test_another_address_and_another_route_are_told(device: str) -> None:
    told, before = threading.Event(), set(threading.enumerate())
    watch = namespaces.inside(device, lambda: RouteWatch(told.set))
    try:
        namespaces.ip("-n", device, "link", "set", "lo", "up")
        assert told.wait(30)
        told.clear()
        namespaces.ip("-n", device, "address", "add", "192.0.2.1/32", "dev", "lo")
        assert told.wait(30)
        told.clear()
        namespaces.ip("-n", device, "route", "add", "198.51.100.0/24", "dev", "lo")
        assert told.wait(30)
    finally:
        watch.close()
        watch.close()
    assert set(threading.enumerate()) <= before
