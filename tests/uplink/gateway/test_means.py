# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Held uploads on a device that charges, that has another network, and that goes to sleep."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.test_power import LOGIN, NETWORK, UPOWER, Device
from tests.needs import requires
from tests.notifications import bus
from tests.uplink.gateway.site import Site, site
from tests.uplink.gateway.test_holding import put
from tests.waiting import eventually

pytestmark = requires("dbus-daemon", "gdbus", "curl")
YES, NO = "uint32 1", "uint32 2"


@pytest.fixture
def phone(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Site, Device]]:
    """On battery, with a metered connection."""
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(bus(short_path / "bus"))
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        device = Device(address, short_path)
        for mock in (
            device.mock(NETWORK, NETWORK[0], Metered=YES),
            device.mock(UPOWER, UPOWER[0], OnBattery="true"),
            device.mock(LOGIN, f"{LOGIN[0]}.Manager"),
        ):
            stack.enter_context(mock)
        cloud = stack.enter_context(site(short_path))
        cloud.list_folder()
        time.sleep(0.5)
        yield cloud, device


@pytest.mark.parametrize(
    ("service", "name", "value"), [(NETWORK, "Metered", NO), (UPOWER, "OnBattery", "false")]
)
def test_held_uploads_go_when_there_is_plenty(
    phone: tuple[Site, Device], service: tuple[str, str], name: str, value: str
) -> None:
    cloud, device = phone
    assert put(cloud, "a", b"content") == 201
    time.sleep(3)
    assert cloud.states() == {"held": 1}
    device.set(service, name, value)
    assert eventually(lambda: cloud.states() == {"confirmed": 1})
    assert cloud.ask("stats")["flushes"] == {"plenty": 1}
    assert put(cloud, "b", b"content") == 201
    assert eventually(lambda: cloud.states() == {"confirmed": 2})


def test_nothing_goes_while_the_device_goes_to_sleep(phone: tuple[Site, Device]) -> None:
    cloud, device = phone
    assert put(cloud, "a", b"content") == 201
    device.sleep("true")
    time.sleep(1)
    device.set(UPOWER, "OnBattery", "false")
    time.sleep(3)
    assert not (cloud.server.files / "a").exists()
    device.sleep("false")
    assert eventually(lambda: cloud.states() == {"confirmed": 1})
    assert (cloud.server.files / "a").read_bytes() == b"content"
