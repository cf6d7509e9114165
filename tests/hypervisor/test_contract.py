# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The contract of hypervisor.Machine and hypervisor.Driver, asked of every driver."""

import dataclasses
import os
import threading
from pathlib import Path

import pytest

from hypervisor import (
    DeviceStateRefused,
    Machine,
    MachineFailed,
    MachineState,
    MachineStateError,
    Wiring,
)
from satchel.errors import UsageError
from tests.hypervisor.site import SPEC, Lines, Site, copy_sparse, make_sparse, open_files
from tests.waiting import eventually


def freeze(machine: Machine, wiring: Wiring, folder: Path) -> None:
    """A whole checkpoint, RAM included, of a running machine, which is left paused."""
    folder.mkdir()
    machine.pause()
    machine.save(folder / "device-state")
    copy_sparse(wiring.ram, folder / "ram")


def state_of(machine: Machine) -> MachineState:
    """For a second look at a state, which mypy takes for settled after the first."""
    return machine.state


def thaw(site: Site, folder: Path) -> Machine:
    copy_sparse(folder / "ram", site.wiring.ram)
    machine = site.start(None)
    machine.load(folder / "device-state")
    machine.resume()
    return machine


def test_the_host_can_run_the_spec_of_the_tests(site: Site) -> None:
    site.driver.check(SPEC)


def test_a_running_machine_answers(site: Site) -> None:
    machine = site.running()
    agent = Lines(machine)
    first = int(agent("count"))
    assert int(agent("count")) == first + 1
    assert machine.state is MachineState.RUNNING
    assert machine.failure() is None
    agent.close()


def test_a_paused_machine_is_silent_and_answers_after_resume(site: Site) -> None:
    machine = site.running()
    agent = Lines(machine)
    count = int(agent("count"))
    machine.pause()
    assert machine.state is MachineState.PAUSED
    agent.ask("count")
    with pytest.raises(TimeoutError):
        agent.answer(seconds=0.3)
    machine.resume()
    assert int(agent.answer()) == count + 1
    agent.close()


def test_another_host_connects_after_the_first_hung_up(site: Site) -> None:
    machine = site.running()
    for _ in range(3):
        agent = Lines(machine)
        assert agent("count")
        agent.close()


def test_save_keeps_the_machine_paused_and_able_to_go_on(site: Site, short_path: Path) -> None:
    machine = site.running()
    agent = Lines(machine)
    agent("fill 3000000")
    count, checksum = int(agent("count")), agent("sum")
    for step in range(1, 4):
        machine.pause()
        machine.save(short_path / "device-state")
        assert machine.state is MachineState.PAUSED
        machine.resume()
        assert int(agent("count")) == count + step
        assert agent("sum") == checksum
    agent.close()


def test_save_twice_gives_the_same_bytes(site: Site, short_path: Path) -> None:
    machine = site.running()
    machine.pause()
    machine.save(short_path / "one")
    machine.save(short_path / "two")
    assert (short_path / "one").read_bytes() == (short_path / "two").read_bytes()


def test_save_does_not_change_the_ram(site: Site, short_path: Path) -> None:
    machine = site.running()
    machine.pause()
    before = site.wiring.ram.read_bytes()
    machine.save(short_path / "device-state")
    assert site.wiring.ram.read_bytes() == before


def test_save_that_cannot_write_leaves_no_file_and_can_be_repeated(
    site: Site, short_path: Path
) -> None:
    machine = site.running()
    machine.pause()
    with pytest.raises(OSError):
        machine.save(short_path / "nowhere" / "device-state")
    machine.save(short_path / "device-state")
    machine.resume()


def test_generations_of_checkpoint_and_resume(site: Site, short_path: Path) -> None:
    machine = site.running()
    agent = Lines(machine)
    agent("fill 3000000")
    count, checksum = int(agent("count")), agent("sum")
    for generation in range(1, 4):
        agent.close()
        machine.pause()
        machine.save(short_path / "device-state")
        machine.stop()
        machine = site.start(None)
        assert machine.state is MachineState.INCOMING
        machine.load(short_path / "device-state")
        assert state_of(machine) is MachineState.PAUSED
        machine.resume()
        agent = Lines(machine)
        assert int(agent("count")) == count + generation
        assert agent("sum") == checksum
    agent.close()


def test_a_machine_that_started_from_its_disk_continues(site: Site, short_path: Path) -> None:
    machine = site.from_disk()
    machine.pause()
    machine.save(short_path / "device-state")
    machine.stop()
    machine = site.start(None)
    machine.load(short_path / "device-state")
    machine.resume()
    machine.weigh(10)  # whether or not this host has weights
    assert machine.state is MachineState.RUNNING


def test_checkpoints_of_one_machine_are_independent(site: Site, short_path: Path) -> None:
    machine = site.running()
    agent = Lines(machine)
    count = int(agent("count"))
    freeze(machine, site.wiring, short_path / "first")
    machine.resume()
    agent("count")
    agent("count")
    freeze(machine, site.wiring, short_path / "second")
    agent.close()
    machine.stop()
    for folder, expected in (("first", count + 1), ("second", count + 3), ("first", count + 1)):
        machine = thaw(site, short_path / folder)
        agent = Lines(machine)
        assert int(agent("count")) == expected
        agent.close()
        machine.stop()


def test_a_damaged_device_state_is_refused(site: Site, short_path: Path) -> None:
    machine = site.running()
    machine.pause()
    machine.save(short_path / "device-state")
    machine.stop()
    damaged = bytearray((short_path / "device-state").read_bytes())
    damaged[8:40] = os.urandom(32)
    (short_path / "damaged").write_bytes(damaged)
    for content in (bytes(damaged), b"", b"garbage" * 100):
        (short_path / "damaged").write_bytes(content)
        machine = site.start(None)
        with pytest.raises(DeviceStateRefused) as caught:
            machine.load(short_path / "damaged")
        assert machine.state is MachineState.FAILED
        assert machine.failure()
        assert "load" in str(caught.value)
        machine.stop()
        assert open_files(short_path) == [p for p in open_files(short_path) if "nbd" in p.name]


def test_calls_in_the_wrong_state_change_nothing(site: Site, short_path: Path) -> None:
    file = short_path / "device-state"
    machine = site.running()
    for call in (machine.resume, lambda: machine.save(file), lambda: machine.load(file)):
        with pytest.raises(MachineStateError) as caught:
            call()
        assert caught.value.state is MachineState.RUNNING
        assert machine.state is MachineState.RUNNING
    machine.pause()
    for call in (machine.pause, lambda: machine.load(file)):
        with pytest.raises(MachineStateError) as caught:
            call()
        assert caught.value.state is MachineState.PAUSED
    machine.stop()
    for call in (machine.resume, machine.pause, lambda: machine.save(file)):
        with pytest.raises(MachineStateError) as caught:
            call()
        assert caught.value.state is MachineState.STOPPED


def test_an_incoming_machine_can_only_load(site: Site, short_path: Path) -> None:
    machine = site.start(None)
    for call in (machine.resume, machine.pause, lambda: machine.save(short_path / "state")):
        with pytest.raises(MachineStateError) as caught:
            call()
        assert caught.value.required
    machine.stop()


def test_stop_leaves_no_socket_and_can_be_repeated(site: Site, short_path: Path) -> None:
    machine = site.running()
    agent = Lines(machine)
    agent("count")
    before = machine.pid
    machine.stop()
    assert machine.state is MachineState.STOPPED
    assert not [path for path in open_files(short_path) if "nbd" not in path.name]
    # The child of another program is there until that has looked how it ended.
    assert before == os.getpid() or eventually(lambda: not Path(f"/proc/{before}").exists())
    with pytest.raises((EOFError, OSError)):
        agent("count")
    agent.close()
    machine.stop()
    assert machine.failure() is None


def test_a_machine_that_ends_by_itself_has_failed(site: Site, short_path: Path) -> None:
    machine = site.running()
    site.kill(machine)
    assert state_of(machine) is MachineState.FAILED
    failure = machine.failure()
    assert failure
    with pytest.raises(MachineFailed) as caught:
        machine.pause()
    assert failure in str(caught.value)
    machine.stop()
    assert state_of(machine) is MachineState.STOPPED
    assert machine.failure() == failure
    assert not [path for path in open_files(short_path) if "nbd" not in path.name]


def test_stop_from_another_thread_ends_a_call_under_way(site: Site, short_path: Path) -> None:
    machine = site.running()
    errors: list[Exception] = []

    def toggle() -> None:
        try:
            while True:
                machine.pause()
                machine.save(short_path / "device-state")
                machine.resume()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=toggle)
    thread.start()
    Lines(machine)("count")
    machine.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(errors[0], (MachineStateError, MachineFailed))


def test_adopt_finds_no_machine_where_none_runs(site: Site) -> None:
    with pytest.raises(MachineFailed, match="no machine runs in"):
        site.driver.adopt(SPEC, site.wiring)
    site.running().stop()
    with pytest.raises(MachineFailed, match="no machine runs in"):
        site.driver.adopt(SPEC, site.wiring)


def test_a_wiring_that_does_not_fit_is_refused(site: Site, short_path: Path) -> None:
    small = short_path / "small"
    make_sparse(small, SPEC.memory_bytes - 4096)
    for wiring in (
        dataclasses.replace(site.wiring, ram=small),
        dataclasses.replace(site.wiring, ram=short_path / "none"),
        dataclasses.replace(site.wiring, disks={}),
        dataclasses.replace(site.wiring, disks={"other": "nbd+unix:///?socket=/s"}),
    ):
        with pytest.raises(UsageError):
            site.driver.start(SPEC, wiring, None)
    assert not [path for path in open_files(short_path) if "nbd" not in path.name]
