# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the fake driver does for the tests of upper floors, beyond the contract."""

from pathlib import Path

import pytest

from hypervisor import DeviceStateRefused, FakeDriver, MachineSpec, MachineUnsupported, Wiring
from tests.hypervisor.site import SPEC, FakeSite, LineGuest, Lines


@pytest.fixture
def fake(short_path: Path) -> FakeSite:
    return FakeSite(short_path)


def test_an_unable_host() -> None:
    driver = FakeDriver(LineGuest, lacking=("a soul", "a body"))
    with pytest.raises(MachineUnsupported, match="it lacks a soul, a body"):
        driver.check(SPEC)
    with pytest.raises(MachineUnsupported):
        driver.start(SPEC, Wiring(Path("/none"), Path("/none/ram")), None)


def test_ram_of_another_moment_is_refused(fake: FakeSite, short_path: Path) -> None:
    """The mistake of a checkpoint whose RAM was taken before or after its device state."""
    machine = fake.running()
    agent = Lines(machine)
    agent("count")
    machine.pause()
    machine.save(short_path / "device-state")
    machine.resume()
    agent("count")
    machine.pause()
    machine.stop()
    agent.close()
    resumed = fake.start(None)
    with pytest.raises(DeviceStateRefused, match="the RAM is not the one that belongs to it"):
        resumed.load(short_path / "device-state")
    fake.close()


def test_a_device_state_of_another_spec_is_refused(fake: FakeSite, short_path: Path) -> None:
    machine = fake.running()
    machine.pause()
    machine.save(short_path / "device-state")
    machine.stop()
    spec = MachineSpec(SPEC.memory_mib, SPEC.disks, vcpus=2)
    resumed = fake.driver.start(spec, fake.wiring, None)
    with pytest.raises(DeviceStateRefused, match="another machine spec"):
        resumed.load(short_path / "device-state")
    fake.close()


def test_a_question_half_asked_survives_the_checkpoint(fake: FakeSite, short_path: Path) -> None:
    machine = fake.running()
    agent = Lines(machine)
    agent("count")
    agent.send(b"cou")
    machine.pause()
    machine.resume()
    agent.send(b"nt\n")
    assert agent.answer() == "2"
    agent.close()
    fake.close()


def test_adopt_gives_the_machine_that_is_there(fake: FakeSite) -> None:
    machine = fake.running()
    assert fake.driver.adopt(SPEC, fake.wiring) is machine
    fake.close()
