# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A device that is on battery, on a metered connection, asleep: python-dbusmock says so, on a bus
of the test's own."""

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.platform.power import BATTERY, METERED, Means, Power, Urgency
from tests.headless import running
from tests.needs import requires
from tests.notifications import MOCK, bus
from tests.waiting import eventually

pytestmark = requires("dbus-daemon", "gdbus")

NETWORK = "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager"
UPOWER = "org.freedesktop.UPower", "/org/freedesktop/UPower"
LOGIN = "org.freedesktop.login1", "/org/freedesktop/login1"
YES, GUESS_NO = 1, 4


class Device:
    """What the mocks say. address: of the bus"""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self._folder = address, folder

    def call(self, service: tuple[str, str], method: str, *arguments: str) -> bool:
        name, path = service
        argv = ["gdbus", "call", "--address", self.address, "--dest", name, "--object-path", path]
        argv += ["--method", method, *arguments]
        return subprocess.run(argv, check=False, capture_output=True).returncode == 0

    @contextlib.contextmanager
    def mock(self, service: tuple[str, str], interface: str, **properties: str) -> Iterator[None]:
        """properties: GVariants"""
        argv = [MOCK, "-m", "dbusmock", "--system", *service, interface]
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": self.address}
        with (self._folder / service[0]).open("wb") as log, running(argv, environment, log, log):
            assert eventually(
                lambda: self.call(service, "org.freedesktop.DBus.Introspectable.Introspect")
            )
            for name, value in properties.items():
                add = "org.freedesktop.DBus.Mock.AddProperty"
                assert self.call(service, add, interface, name, f"<{value}>")
            yield

    def set(self, service: tuple[str, str], name: str, value: str) -> None:
        update = "org.freedesktop.DBus.Mock.UpdateProperties"
        assert self.call(service, update, service[0], f"{{'{name}': <{value}>}}")

    def sleep(self, begins: str) -> None:
        emit = "org.freedesktop.DBus.Mock.EmitSignal"
        interface = f"{LOGIN[0]}.Manager"
        assert self.call(LOGIN, emit, interface, "PrepareForSleep", "b", f"[<{begins}>]")


@pytest.fixture
def device(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    with bus(short_path / "bus") as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        there = Device(address, short_path)
        with (
            there.mock(NETWORK, NETWORK[0], Metered=f"uint32 {GUESS_NO}"),
            there.mock(UPOWER, UPOWER[0], OnBattery="false"),
            there.mock(LOGIN, f"{LOGIN[0]}.Manager"),
        ):
            yield there


def test_each_change_is_heard(device: Device) -> None:
    with Power({METERED, BATTERY}) as power:
        assert power.ready(30)
        assert power.means == Means()
        device.set(NETWORK, "Metered", f"uint32 {YES}")
        assert eventually(lambda: power.means == Means(metered=True))
        assert "metered" in power.holds(Urgency.LATER)
        assert not power.holds(Urgency.SOON)
        device.set(UPOWER, "OnBattery", "true")
        assert eventually(lambda: power.means == Means(metered=True, battery=True))
        device.set(NETWORK, "Metered", f"uint32 {GUESS_NO}")
        assert eventually(lambda: power.means == Means(battery=True))
        device.sleep("true")
        assert eventually(lambda: power.means.sleeping)
        assert power.holds(Urgency.SOON)
        assert not power.holds(Urgency.NOW)
        device.sleep("false")
        assert eventually(lambda: not power.means.sleeping)


@pytest.mark.parametrize(
    ("waits", "service", "name", "held", "over"),
    [
        (METERED, NETWORK, "Metered", f"uint32 {YES}", f"uint32 {GUESS_NO}"),
        (BATTERY, UPOWER, "OnBattery", "true", "false"),
    ],
)
def test_a_transfer_stops_in_the_middle_and_goes_on(
    device: Device, waits: str, service: tuple[str, str], name: str, held: str, over: str
) -> None:
    pieces: list[int] = []
    ending = threading.Event()

    def transfer(power: Power) -> None:
        while not ending.wait(0.01):
            power.wait(Urgency.LATER, ending)
            pieces.append(1)

    with Power({waits}) as power:
        assert power.ready(30)
        thread = threading.Thread(target=transfer, args=(power,))
        thread.start()
        try:
            assert eventually(lambda: len(pieces) > 3)
            device.set(service, name, held)
            assert eventually(lambda: bool(power.holds(Urgency.LATER)))
            ending.wait(0.1)  # the piece that was under way
            stopped = len(pieces)
            ending.wait(1.0)
            assert len(pieces) == stopped
            if waits == METERED:
                device.set(UPOWER, "OnBattery", "true")  # of which nothing is to wait
            else:
                device.set(NETWORK, "Metered", f"uint32 {YES}")
            device.set(service, name, over)
            assert eventually(lambda: len(pieces) > stopped)
        finally:
            ending.set()
            thread.join()


def test_a_service_that_comes_later_or_ends_is_noticed(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bus(short_path / "bus") as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        there = Device(address, short_path)
        with Power({BATTERY}) as power:
            assert power.ready(30)
            assert power.means == Means()
            with there.mock(UPOWER, UPOWER[0], OnBattery="false"):
                there.set(UPOWER, "OnBattery", "true")
                assert eventually(lambda: power.means.battery)
            assert eventually(lambda: not power.means.battery)


def test_without_a_bus_nothing_waits(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("no address", f"unix:path={short_path}/nobody"):
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        with Power({METERED, BATTERY}) as power:
            assert power.ready(30)
            assert not power.holds(Urgency.LATER)


def test_a_service_that_says_nonsense_counts_for_nothing(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bus(short_path / "bus") as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        there = Device(address, short_path)
        with (
            there.mock(UPOWER, UPOWER[0], OnBattery="'yes'"),
            there.mock(NETWORK, NETWORK[0], Metered="[1, 2]"),
            Power({METERED, BATTERY}) as power,
        ):
            assert power.ready(30)
            assert power.means == Means()
            there.set(UPOWER, "OnBattery", "true")
            assert eventually(lambda: power.means.battery)
