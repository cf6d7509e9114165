# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The life of a replica, with a scripted guest; what is attached to it is real."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from chunkstore import Store, StoreFull, TableRoot
from hypervisor import (
    DeviceStateRefused,
    FakeDriver,
    FakeMachine,
    MachineUnsupported,
    RamMount,
    RamMountFailed,
)
from replay import OperationGap
from replay.frames import AgentFrame, FrameType
from replica import (
    MachineSnapshot,
    Replica,
    ReplicaFailed,
    ReplicaState,
    WrongGuest,
    WrongReplicaState,
)
from satchel.errors import SatchelError
from satchel.ids import OperationNumber
from tests.needs import requires
from tests.replica.conftest import Bench
from tests.scripted import SPEC, ScriptedGuest, body, operation
from tests.waiting import eventually
from volumes import Volume, VolumeServer, local_resolver

pytestmark = requires("nbdkit", "nbdfuse", "fuse")


def test_operations_are_executed_in_order_and_once(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    first = replica.execute(operation(1))
    second = replica.execute(operation(2))
    assert body(first.payload).startswith("1 ")
    assert replica.execute(operation(2)) == second
    assert replica.last == 2
    with pytest.raises(OperationGap):
        replica.execute(operation(4))
    assert replica.state is ReplicaState.READY
    replica.execute(operation(3))


def test_a_stateless_replica_counts_for_itself(bench: Bench) -> None:
    replica = bench.boot(bench.replica(stateful=False))
    response = replica.execute(operation(70))
    assert response.number == 70
    assert body(response.payload).startswith("1 ")
    assert replica.execute(operation(12)).number == 12
    assert replica.last == 2


class Clocked(ScriptedGuest):
    """A guest that remembers what time it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[float, bytes]] = []
        self.asked: list[FrameType] = []

    def _reply(self, request: AgentFrame) -> bytes:
        self.asked.append(FrameType(request.type))
        if FrameType(request.type) is FrameType.WAKEN:
            self.told.append((request.time_ns / 1e9, request.payload))
        return super()._reply(request)


def test_a_carried_guest_is_told_the_time_whenever_its_clock_stood_still(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests: list[Clocked] = []

    def guest() -> Clocked:
        guests.append(Clocked())
        return guests[-1]

    now, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: now() + ahead[0])
    monkeypatch.setattr(time, "time_ns", lambda: round(1e9 * (now() + ahead[0])))
    driver, spec = FakeDriver(guest), replace(SPEC, streams=True)
    replica = bench.replica(driver=driver, spec=spec)
    bench.boot(replica)
    (clocked,) = guests
    assert len(clocked.told) == 1
    replica.checkpoint()
    assert len(clocked.told) == 3  # before it went on, and when it did
    frozen = replica.checkpoint(hold=True)
    assert len(clocked.told) == 3
    replica.go_on()
    assert len(clocked.told) == 5
    for moved in (30 * 86_400.0, -1e8):  # the host slept; its clock was put right
        ahead[0] += moved
        assert eventually(lambda: abs(clocked.told[-1][0] - time.time()) < 5.0)
    bench.resume(bench.replica(driver=driver, spec=spec), frozen)
    assert guests[-1].asked[0] is FrameType.WAKEN
    entropy = [drawn for guest in guests for _, drawn in guest.told]
    assert len(set(entropy)) == len(entropy) and set(map(len, entropy)) == {32}


def test_a_checkpoint_is_between_two_operations_and_is_resumed_elsewhere(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    replica.execute(operation(1))
    frozen = replica.checkpoint()
    assert frozen.operation == 1
    twin = bench.resume(bench.replica(), frozen)
    assert twin.last == 1
    assert twin.execute(operation(2)) == replica.execute(operation(2))
    assert twin.digest([]) == replica.digest([])


def test_nothing_is_left_after_stop(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    assert bench.left() == ["r0"]
    replica.stop()
    replica.stop()
    assert bench.left() == []
    assert replica.state is ReplicaState.STOPPED
    with pytest.raises(WrongReplicaState):
        replica.execute(operation(1))


def test_a_machine_that_ended_while_nobody_looked_is_noticed(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    bench.driver.machines[-1].crash("the power failed")
    assert replica.state is ReplicaState.FAILED
    assert "the power failed" in (replica.failure() or "")
    with pytest.raises(WrongReplicaState):
        replica.execute(operation(1))


@contextlib.contextmanager
def under_way(bench: Bench, act: Callable[[], None]) -> Iterator[None]:
    """Another thread acts when the guest has got operation 1."""
    guest = bench.driver.machines[-1].guest
    assert isinstance(guest, ScriptedGuest)

    def wait() -> None:
        assert eventually(lambda: guest.last == 1)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


def test_a_machine_that_ends_under_an_operation_says_why(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    machine = bench.driver.machines[-1]
    with (
        under_way(bench, lambda: machine.crash("the power failed")),
        pytest.raises(ReplicaFailed, match="the power failed"),
    ):
        replica.execute(operation(1, "/hang"))
    assert replica.state is ReplicaState.FAILED


def test_a_service_that_does_not_answer_is_not_the_end(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    assert replica.execute(operation(1, "/boom")).payload.startswith(b"HTTP/1.1 502 ")
    assert replica.execute(operation(2)).payload.startswith(b"HTTP/1.1 200 ")


def test_a_service_that_takes_no_operations_is_the_end(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    with pytest.raises(ReplicaFailed):
        replica.execute(operation(1, "/down"))
    assert replica.state is ReplicaState.FAILED


def test_stop_ends_an_operation_under_way(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    with under_way(bench, replica.stop), pytest.raises(ReplicaFailed, match="stopped"):
        replica.execute(operation(1, "/hang"))
    assert replica.state is ReplicaState.STOPPED


def test_stop_ends_what_waits_for_an_operation_under_way(bench: Bench) -> None:
    """Such as the same operation, which a client asked for again over another connection."""
    replica = bench.boot(bench.replica())
    called = threading.Semaphore(0)

    def call() -> None:
        called.release()
        replica.execute(operation(1, "/hang"))

    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(call) for _ in range(2)]
        assert all(called.acquire(timeout=60) for _ in calls)
        with under_way(bench, lambda: None):
            pass
        time.sleep(0.3)
        replica.stop()
        for one in calls:
            with pytest.raises(ReplicaFailed, match="stopped"):
                one.result(60)


def test_stop_ends_a_start_under_way(bench: Bench) -> None:
    """At any point of it: each run of this is stopped a little later than the one before."""
    frozen = bench.boot(bench.replica()).checkpoint()
    for step in range(12):
        replica = bench.replica()
        stopper = threading.Timer(step * 0.015, replica.stop)
        stopper.start()
        with contextlib.suppress(ReplicaFailed, WrongReplicaState):
            bench.resume(replica, frozen)
        stopper.join()
        assert replica.state is ReplicaState.STOPPED
        assert bench.left() == ["r0"]


def test_a_guest_at_another_operation_than_its_checkpoint_says(bench: Bench) -> None:
    frozen = bench.boot(bench.replica()).checkpoint()
    lie = MachineSnapshot(OperationNumber(7), frozen.device_state, frozen.volumes)
    with pytest.raises(WrongGuest, match="at operation 0, not 7"):
        bench.resume(bench.replica(), lie)
    assert bench.left() == ["r0"]


def test_a_host_that_cannot_run_the_machine(bench: Bench) -> None:
    bench.driver.lacking = ("machine type pc-q35-99.0",)
    replica = bench.replica()
    with pytest.raises(MachineUnsupported, match=r"pc-q35-99\.0"):
        bench.boot(replica)
    assert replica.state is ReplicaState.FAILED
    assert bench.left() == []


def test_a_device_state_of_another_memory(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    before = replica.checkpoint()
    replica.execute(operation(1))
    after = replica.checkpoint()
    with pytest.raises(DeviceStateRefused):
        bench.resume(
            bench.replica(), MachineSnapshot(before.operation, before.device_state, after.volumes)
        )
    assert bench.left() == ["r0"]


def test_a_run_folder_that_is_taken_is_left_alone(bench: Bench) -> None:
    taken = bench.folder / "run" / "r0"
    taken.mkdir(parents=True)
    (taken / "precious").touch()
    with pytest.raises(FileExistsError):
        bench.boot(bench.replica())
    assert (taken / "precious").exists()


@pytest.mark.parametrize("step", ["server", "mount", "machine", "bring", "agent"])
def test_a_start_that_fails_at_any_step_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    frozen = bench.boot(bench.replica()).checkpoint()

    def fail(*_: object, **__: object) -> None:
        raise SatchelError("injected")

    def bring(root: TableRoot) -> bytes:
        fail()
        return b""

    if step == "server":
        monkeypatch.setattr(VolumeServer, "start", fail)
    elif step == "mount":
        monkeypatch.setattr(RamMount, "mount", fail)
    elif step == "machine":
        monkeypatch.setattr(bench.driver, "start", fail)
    elif step == "agent":
        monkeypatch.setattr("replay.AgentChannel.wait_ready", fail)
    replica = bench.replica()
    deliver: Callable[[TableRoot], bytes] = bring if step == "bring" else bench.store.read
    with pytest.raises(SatchelError, match="injected"):
        replica.resume(frozen, local_resolver(bench.store), deliver)
    assert replica.state is ReplicaState.FAILED
    assert bench.left() == ["r0"]


def test_no_program_is_started_and_no_file_imported_while_the_machine_stands_still(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start in a cell takes as long as all else of a pause."""
    replica = bench.boot(bench.replica())
    replica.execute(operation(1))
    stands: set[str] = set()
    seen: list[str] = []
    pause, resume = FakeMachine.pause, FakeMachine.resume
    start, put = subprocess.Popen.__init__, Store.import_file

    def note(call: Callable[..., object], what: str) -> Callable[..., object]:
        def noted(*arguments: object, **named: object) -> object:
            seen.append(f"{what} {'while it stands' if stands else ''}".strip())
            return call(*arguments, **named)

        return noted

    def paused(machine: FakeMachine) -> None:
        stands.add(machine.wiring.name)
        pause(machine)

    def resumed(machine: FakeMachine) -> None:
        resume(machine)
        stands.clear()

    monkeypatch.setattr(FakeMachine, "pause", paused)
    monkeypatch.setattr(FakeMachine, "resume", resumed)
    monkeypatch.setattr(subprocess.Popen, "__init__", note(start, "start"))
    monkeypatch.setattr(Store, "import_file", note(put, "import"))
    replica.checkpoint()
    assert seen == ["start", "import"]
    replica.checkpoint(hold=True)
    assert seen[2:] == ["start", "import while it stands"]
    replica.go_on()
    assert body(replica.execute(operation(2)).payload)


def test_a_store_without_room_costs_the_checkpoint_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = bench.boot(bench.replica())
    replica.execute(operation(1))

    def full(*_: object) -> TableRoot:
        raise StoreFull("cannot store a block", why="no room")

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "commit", full)
        with pytest.raises(StoreFull):
            replica.checkpoint()
    assert replica.state is ReplicaState.READY
    replica.execute(operation(2))
    assert replica.checkpoint().operation == 2


def test_memory_that_cannot_be_written_back_is_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = bench.boot(bench.replica())

    def broken(mount: RamMount, *prepared: object) -> None:
        raise RamMountFailed("cannot write the RAM back", why="the test says so")

    monkeypatch.setattr(RamMount, "sync", broken)
    with pytest.raises(ReplicaFailed, match="the test says so"):
        replica.checkpoint()
    assert replica.state is ReplicaState.FAILED


def test_checkpoints_and_operations_from_many_threads(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    frozen: list[MachineSnapshot] = []

    def take() -> None:
        for _ in range(3):
            frozen.append(replica.checkpoint())

    taker = threading.Thread(target=take)
    taker.start()
    responses = [replica.execute(operation(number)) for number in range(1, 31)]
    taker.join()
    replica.stop()
    for state in frozen:
        twin = bench.resume(bench.replica(), state)
        for number in range(state.operation + 1, 31):
            assert twin.execute(operation(number)) == responses[number - 1]


def test_volumes_are_told_before_the_machine_touches_them(bench: Bench) -> None:
    frozen = bench.boot(bench.replica()).checkpoint()
    seen: list[str] = []

    def attached(volumes: Mapping[str, Volume]) -> None:
        seen.extend(sorted(volumes))
        assert len(bench.driver.machines) == 1

    replica = bench.replica()
    replica.resume(frozen, local_resolver(bench.store), bench.store.read, attached)
    assert seen == ["disk0", "ram"]


def test_a_guest_that_outlives_its_line(bench: Bench) -> None:
    """The agent's memory says what was executed, not the host's."""
    replica = bench.boot(bench.replica())
    replica.execute(operation(1))
    guest = bench.driver.machines[-1].guest
    assert isinstance(guest, ScriptedGuest)
    assert guest.last == replica.last == 1


def test_run_and_digest_do_not_count(bench: Bench) -> None:
    replica = bench.boot(bench.replica())
    assert replica.run(["echo", "hi"], 5.0) == (0, b"echo\0hi")
    replica.digest(["/var"])
    assert replica.last == 0


def test_replica_ids_are_in_errors(bench: Bench) -> None:
    replica: Replica = bench.replica()
    with pytest.raises(WrongReplicaState, match="r0 is starting"):
        replica.checkpoint()
