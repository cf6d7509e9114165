# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A live service: the log, the replica behind it, and what happens when the replica is gone."""

import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from chunkstore import ChunkMissing, StoreFull, TableRoot
from homeserver import Service
from homeserver.services.machines import HomeClosing
from homeserver.services.records import RecordDamaged
from homeserver.services.replayed import NotExecutedYet, OperationsDiffer
from homeserver.services.service import NotLaunched
from hypervisor import FakeMachine, MachineUnsupported
from images import ImageNotBuilt, Manifest
from replay import Log, Operation, OperationGap, OperationsCut, Response, Sample
from replica import (
    RESUME,
    STEADY,
    Access,
    Profile,
    ReplicaFailed,
    ReplicaState,
    Run,
    WrongReplicaState,
    decode_profile,
    decode_working_set,
    directory_size,
    observed,
)
from satchel.errors import ConflictError, NotFoundError
from satchel.ids import BLOCK_SIZE, OperationNumber
from tests.homeserver.conftest import Bench, make_image
from tests.needs import requires
from tests.scripted import ScriptedGuest, body, operation
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")

ZERO = OperationNumber(0)


def executed(service: Service) -> int:
    """How many operations the guest has executed, as it counts itself."""
    return service.replica().last


def digest(service: Service) -> str:
    """Of the guest's whole history."""
    return service.replica().digest(["/state"])


def wait_until_failed(service: Service) -> None:
    assert eventually(lambda: service.view().failure is not None)


def test_operations_are_logged_executed_and_answered_in_order(bench: Bench) -> None:
    service = bench.running()
    responses = list(service.answer([operation(1), operation(2), operation(3)]))
    assert [response.number for response in responses] == [1, 2, 3]
    assert [body(response.payload).split()[0] for response in responses] == ["1", "2", "3"]
    assert service.replayed.operations(ZERO, 10) == [operation(1), operation(2), operation(3)]
    view = service.view()
    assert (view.state, view.last_logged, view.last_executed) == ("ready", 3, 3)


def test_an_operation_is_executed_once_however_often_it_is_sent(bench: Bench) -> None:
    service = bench.running()
    batch = [operation(1), operation(2)]
    assert list(service.answer(batch)) == list(service.answer(batch))
    assert list(service.answer([*batch, operation(3)]))[:2] == list(service.answer(batch))
    assert executed(service) == 3


def test_many_threads_send_overlapping_batches(bench: Bench) -> None:
    service = bench.running()

    def send(start: int) -> list[Response]:
        return list(service.answer([operation(n) for n in range(1, start + 2)]))

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, range(24)))
    assert executed(service) == 24
    longest = max(answers, key=len)
    assert all(answer == longest[: len(answer)] for answer in answers)


def test_nothing_to_submit(bench: Bench) -> None:
    assert list(bench.service().answer([])) == []


def test_a_gap_is_refused(bench: Bench) -> None:
    service = bench.running()
    with pytest.raises(OperationGap):
        list(service.answer([operation(1), operation(3)]))
    assert service.last_logged == 1
    assert next(service.answer([operation(2)])).number == 2


def test_two_operations_of_one_number(bench: Bench) -> None:
    service = bench.running()
    list(service.answer([operation(1), operation(2)]))
    with pytest.raises(OperationsDiffer):
        list(service.answer([operation(2, "/other")]))
    assert service.replayed.operations(ZERO, 10) == [operation(1), operation(2)]
    list(service.answer([operation(3)]))


def test_without_a_replica_operations_are_kept_for_the_next(bench: Bench) -> None:
    service = bench.service()
    with pytest.raises(NotLaunched):
        list(service.answer([operation(1), operation(2)]))
    assert service.last_logged == 2
    service.launch()
    assert len(list(service.answer([operation(1), operation(2)]))) == 2


def test_an_operation_is_answered_before_the_next_one_is_executed(bench: Bench) -> None:
    service = bench.running()
    answers = service.answer([operation(1), operation(2, "/hang"), operation(3)])
    assert next(answers).number == 1
    assert service.last_logged == 3  # all of them are, before any is answered
    bench.machine().crash("the power failed")
    with pytest.raises(ReplicaFailed, match="the power failed"):
        next(answers)


def scripted(machine: FakeMachine) -> ScriptedGuest:
    assert isinstance(machine.guest, ScriptedGuest)
    return machine.guest


def test_a_machine_that_dies_right_before_an_operation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, read = bench.running(), Log.read

    def dying(log: Log, after: OperationNumber) -> Iterator[Operation]:
        bench.machine().crash("the power failed")
        return read(log, after)

    monkeypatch.setattr(Log, "read", dying)
    with pytest.raises(ReplicaFailed, match="the power failed"):
        list(service.answer([operation(1)]))


def test_reads_are_compared_each_at_its_state(bench: Bench) -> None:
    service = bench.running()
    list(service.answer([operation(1)]))
    (first,) = service.read([operation(2, "/pages")])
    samples = [Sample(OperationNumber(at), operation(2, "/pages")) for at in (3, 1, 2)]
    digests = service.compare(samples)
    assert [answer.number for answer in service.answer([operation(2), operation(3)])] == [2, 3]
    (last,) = service.read([operation(2, "/pages")])
    said = [answer.digest for answer in digests]
    assert (said[0], said[1]) == (last.digest, first.digest)
    assert said[2] not in (first.digest, last.digest, b"")
    assert [answer.digest for answer in service.compare(samples)] == said
    late = Sample(OperationNumber(2), operation(3, "/pages"))
    assert [answer.digest for answer in service.compare([late])] == [b""]
    (now,) = service.compare([Sample(OperationNumber(3), operation(3, "/pages"))])
    assert now.digest == service.read([operation(3, "/pages")])[0].digest


def test_a_machine_that_dies_under_an_operation(bench: Bench) -> None:
    """The caller is told why, the log keeps the operation, and a launch goes on with it."""
    service = bench.running()
    list(service.answer([operation(1), operation(2)]))
    machine = bench.machine()
    guest = scripted(machine)

    def crash() -> None:
        assert eventually(lambda: guest.last == 3)
        machine.crash("the power failed")

    crashing = threading.Thread(target=crash)
    crashing.start()
    with pytest.raises(ReplicaFailed, match="the power failed"):
        list(service.answer([operation(3, "/hang")]))
    crashing.join()
    assert service.view().state == "failed"
    assert "the power failed" in (service.view().failure or "")
    assert bench.left() == []
    with pytest.raises(ReplicaFailed, match="satchel-home launch notes"):
        list(service.answer([operation(4)]))
    assert service.last_logged == 4
    service.launch()
    guest = scripted(bench.machine())
    assert eventually(lambda: guest.last >= 3)
    assert guest.last == 3  # it hangs in it again, as it must


def test_a_relaunch_replays_to_the_same_state(bench: Bench) -> None:
    service = bench.running()
    first = list(service.answer([operation(n) for n in range(1, 11)]))
    before = digest(service)
    bench.machine().crash()
    wait_until_failed(service)
    service.launch()
    service.replayed.wait_executed(OperationNumber(10))
    assert digest(service) == before
    assert list(service.answer([operation(n) for n in range(1, 11)])) == first


def test_a_machine_that_dies_while_nobody_looks_is_noticed(bench: Bench) -> None:
    for name in ("notes", "speech"):
        service = bench.running(name)
        bench.machine().crash("the power failed")
        wait_until_failed(service)
        assert bench.left() == []
        service.launch()
        assert service.view().state == "ready"
        service.stop()
        assert (service.view().state, service.view().failure) == ("down", None)


def test_launch_at_the_very_moment(bench: Bench) -> None:
    """A launch does not take a machine that has just died for a running one."""
    service = bench.running()
    for _ in range(5):
        bench.machine().crash()
        service.launch()
        assert service.replica().state is ReplicaState.READY
        assert len(bench.left()) == 1


def test_launch_twice_is_one_machine(bench: Bench) -> None:
    service = bench.service()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: service.launch(), range(4)))
    assert len(bench.left()) == 1


def test_a_first_boot_happens_once(bench: Bench) -> None:
    service = bench.running()
    assert service.view().checkpoint
    list(service.answer([operation(1)]))
    bench.reopen()
    shutil.rmtree(bench.settings.images / "notes")
    service = bench.running()
    service.replayed.wait_executed(OperationNumber(1))
    checkpoint = service.checkpoint()
    assert checkpoint.manifest.operation == 1
    service.stop()
    with pytest.raises(NotFoundError):
        bench.home.add_service("again", "notes")


def test_home_goes_on_from_the_checkpoint_before_a_damaged_one(bench: Bench) -> None:
    service = bench.running()
    list(service.answer([operation(1), operation(2)]))
    path = service.shelf.root / f"{service.checkpoint().manifest.id}.json"
    bench.home.close()
    path.write_bytes(b"x")
    bench.reopen()
    for _ in range(2):  # the log is not left open
        with pytest.raises(RecordDamaged, match=f"{path.name}.*move it away"):
            bench.home.service("notes")
    assert [view.state for view in bench.home.views()] == ["failed"]
    for moved in (path, path.with_name(f"{path.name}.sig")):
        moved.rename(bench.settings.data / moved.name)
    service = bench.running()
    service.replayed.wait_executed(OperationNumber(2))
    assert next(iter(service.answer([operation(3)]))).number == 3


def test_a_launch_without_an_image(bench: Bench) -> None:
    service = bench.service()
    shutil.rmtree(bench.settings.images / "notes")
    with pytest.raises(ImageNotBuilt, match="satchel-home image build notes"):
        service.launch()
    assert service.view().state == "down"


def test_a_launch_that_this_host_cannot_do(bench: Bench) -> None:
    service = bench.service()
    bench.driver.lacking = ("machine type pc-q35-99.0",)
    with pytest.raises(MachineUnsupported, match=r"pc-q35-99\.0"):
        service.launch()
    view = service.view()
    assert view.state == "failed"
    assert "pc-q35-99.0" in (view.failure or "")
    assert bench.left() == []
    bench.driver.lacking = ()
    service.launch()
    assert service.view().failure is None


def test_a_new_image_does_not_change_a_machine_that_was_booted(bench: Bench) -> None:
    service = bench.running()
    shutil.rmtree(bench.settings.images / "notes")
    make_image(bench.settings.images, "notes", stateful=False)
    manifest = service.checkpoint().manifest
    assert manifest.contract.stateful is True
    assert manifest.machine == service.replica().spec.to_json()


def test_stop_ends_a_launch_under_way(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedGuest, "receive", lambda guest, data: b"")
    service = bench.service()
    with ThreadPoolExecutor(1) as thread:
        launching = thread.submit(service.launch)
        while service.view().state != "starting":
            time.sleep(0.01)
        time.sleep(0.3)
        service.stop()
        with pytest.raises(ReplicaFailed, match="stopped"):
            launching.result(60)
    assert bench.left() == []


def test_closing_ends_a_launch_under_way(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedGuest, "receive", lambda guest, data: b"")
    service = bench.service()
    with ThreadPoolExecutor(1) as thread:
        launching = thread.submit(service.launch)
        while service.view().state != "starting":
            time.sleep(0.01)
        bench.home.close()
        with pytest.raises((ReplicaFailed, WrongReplicaState)):
            launching.result(60)
    with pytest.raises(HomeClosing):
        service.launch()
    with pytest.raises(HomeClosing):
        bench.home.service("notes")


def test_an_operation_that_takes_too_long(short_path: object, bench: Bench) -> None:
    bench.reopen(operation_seconds=0.3)
    service = bench.running()
    with pytest.raises(NotExecutedYet, match="operation 1 of notes is logged"):
        list(service.answer([operation(1, "/hang")]))
    assert service.last_logged == 1


def test_a_long_batch_is_waited_for_as_long_as_it_goes_on(bench: Bench) -> None:
    bench.reopen(operation_seconds=2.0)
    service = bench.running()
    assert len(list(service.answer([operation(n, "/late") for n in range(1, 13)]))) == 12


def test_checkpoints_under_load(bench: Bench) -> None:
    """Each is between two operations, and the log leads on from each that is kept."""
    bench.reopen(keep_checkpoints=20)
    service = bench.running()
    ended = threading.Event()

    def send() -> list[Response]:
        found = []
        for number in range(1, 61):
            found += list(service.answer([operation(number)]))
            time.sleep(0.02)
        ended.set()
        return found

    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(send)
        while not ended.is_set():
            service.checkpoint()
        answers = sending.result()
    after = digest(service)
    manifests = service.shelf.all()
    assert len({manifest.operation for manifest in manifests}) > 3
    for keep in range(len(manifests), 0, -4):
        service.stop()
        service.shelf.keep([manifest.id for manifest in manifests[:keep]])
        service.launch()
        assert executed(service) >= manifests[keep - 1].operation
        service.replayed.wait_executed(OperationNumber(60))
        assert digest(service) == after
    assert list(service.answer([operation(60)])) == answers[-1:]


def test_the_log_leads_on_from_the_oldest_checkpoint_that_is_kept(bench: Bench) -> None:
    service = bench.running()  # keep_checkpoints is 2
    first = []
    for number in range(1, 5):
        list(service.answer([operation(number)]))
        first.append(service.checkpoint().manifest)
    assert [manifest.id for manifest in service.shelf.all()] == [m.id for m in first[-2:]]
    assert first[-1].parent == first[-2].id
    assert service.replayed.operations(OperationNumber(2), 10) == [operation(3), operation(4)]
    with pytest.raises(OperationsCut):
        service.replayed.operations(OperationNumber(1), 10)
    list(service.answer([operation(2)]))  # known, though its response and its record are gone
    assert executed(service) == 4


def test_the_newest_checkpoint_is_the_newest_also_after_the_clock_was_put_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = bench.running()
    with monkeypatch.context() as ahead:
        moment = "2100-01-01T00:00:00.000000+00:00"
        ahead.setattr("homeserver.services.service.timestamp_now", lambda: moment)
        first = service.checkpoint().manifest
    second = service.checkpoint().manifest
    assert (second.operation, second.parent) == (first.operation, first.id)
    assert service.shelf.latest() == second
    assert second.created < moment


def test_a_checkpoint_that_finds_no_room_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = bench.running()
    list(service.answer([operation(1)]))
    before = service.shelf.ids()

    def full(*_: object) -> None:
        raise StoreFull("cannot store a block", why="no room")

    with monkeypatch.context() as patch:
        patch.setattr(bench.home.store, "commit", full)
        with pytest.raises(StoreFull):
            service.checkpoint()
    assert service.shelf.ids() == before
    assert next(service.answer([operation(2)])).number == 2
    assert service.checkpoint().manifest.operation == 2


def test_a_checkpoint_whose_copy_does_not_start_has_no_working_set(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = bench.running()
    monkeypatch.setattr(ScriptedGuest, "thaw", lambda guest, memory: None)
    list(service.answer([operation(1)]))
    manifest = service.checkpoint().manifest
    assert manifest.working_set is None
    assert manifest.profile is not None
    assert len(bench.left()) == 1


def profile_of(bench: Bench, manifest: Manifest) -> Profile:
    assert manifest.profile is not None
    return decode_profile(bench.home.store.read(manifest.profile), manifest.volumes)


def test_what_machines_touch_is_learnt_over_generations(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = bench.running()
    newest = service.newest()
    assert newest
    first = profile_of(bench, newest.manifest)
    assert first.order(phases=[RESUME])
    service.stop()
    service.launch()
    learnt: list[tuple[Profile, list[str]]] = []

    def spy(profile: Profile, accesses: list[Access], now: float) -> Profile:
        learnt.append((profile, [access.phase for access in accesses]))
        return observed(profile, accesses, now)

    monkeypatch.setattr("homeserver.services.machines.observed", spy)
    second = profile_of(bench, service.checkpoint().manifest)
    assert learnt[0][0] == first
    assert [phases[0] for _, phases in learnt] == [RESUME, RESUME]
    assert second.phases[RESUME] == first.phases[RESUME]


def test_of_a_disk_that_lives_use_differently_a_working_set_has_only_first_operations(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Profile()
    for first in (0, 8):
        life = [Access(0.0, RESUME, "disk0", 40, 2), Access(0.0, STEADY, "disk0", first, 16)]
        profile = observed(profile, life, 0.0)
    service = bench.running()
    monkeypatch.setattr("homeserver.services.machines.observed", lambda *_: profile)
    manifest = service.checkpoint().manifest
    assert manifest.working_set is not None
    blob = bench.home.store.read(manifest.working_set)
    frames = decode_working_set(blob[: directory_size(blob)], len(blob), manifest.volumes)
    assert [run for frame in frames for run in frame.runs] == [Run("disk0", 40, 2)]
    assert profile_of(bench, manifest).order() == profile.order()


def test_a_copy_has_what_was_foreseen_as_it_is_now(bench: Bench) -> None:
    service, store = bench.running(), bench.home.store
    first = service.checkpoint().manifest
    list(service.answer([operation(1)]))
    copy = service.copy().manifest
    assert copy.profile == first.profile
    assert copy.working_set is not None
    blob, changed = store.read(copy.working_set), 0
    for frame in decode_working_set(blob[: directory_size(blob)], len(blob), copy.volumes):
        before, now = (
            b"".join(
                store.read(one.volumes[run.volume], run.first * BLOCK_SIZE, run.count * BLOCK_SIZE)
                for run in frame.runs
            )
            for one in (first, copy)
        )
        assert frame.expand(blob[frame.offset : frame.offset + frame.length]) == now
        changed += before != now
    assert changed


def test_a_damaged_profile_is_begun_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = bench.running()
    with monkeypatch.context() as patch:
        patch.setattr(
            "homeserver.services.machines.encode_profile", lambda profile: b"SATP\x07" * 9
        )
        service.checkpoint()
    assert profile_of(bench, service.checkpoint().manifest).order()
    assert "the profile of notes is begun anew" in caplog.text


def test_a_profile_whose_chunks_are_lost_is_begun_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = bench.running()
    newest = service.newest()
    assert newest
    lost = newest.manifest.profile
    read = bench.home.store.read

    def without(root: TableRoot, *extent: int) -> bytes:
        if root == lost:
            raise ChunkMissing("a chunk is not here", ref=root.ref)
        return read(root, *extent)

    monkeypatch.setattr(bench.home.store, "read", without)
    manifest = service.checkpoint().manifest
    assert profile_of(bench, manifest).order()
    assert manifest.working_set is not None
    assert "the profile of notes is begun anew" in caplog.text


def test_operations_are_given_in_portions(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeserver.services.replayed.OPERATION_BYTES", 3000)
    service = bench.running()
    wanted = [operation(n, body=bytes(1000)) for n in range(1, 9)]
    list(service.answer(wanted))
    assert service.replayed.operations(ZERO, 2) == wanted[:2]
    assert service.replayed.operations(ZERO, 100) == wanted[:2]
    assert service.replayed.operations(OperationNumber(7), 100) == wanted[7:]
    assert service.replayed.operations(OperationNumber(8), 100) == []
    monkeypatch.setattr("homeserver.services.replayed.OPERATION_BYTES", 10)
    assert service.replayed.operations(ZERO, 100) == wanted[:1]


def test_responses_that_are_kept_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeserver.services.answer_cache.ANSWERS_KEPT", 4)
    service = bench.running()
    batch = [operation(n) for n in range(1, 9)]
    list(service.answer(batch))
    assert [response.number for response in list(service.answer(batch))] == [5, 6, 7, 8]
    monkeypatch.setattr("homeserver.services.answer_cache.ANSWER_BYTES_KEPT", 10)
    list(service.answer([operation(9)]))
    assert [response.number for response in list(service.answer([*batch, operation(9)]))] == [9]


def test_a_stateless_service_has_no_log(bench: Bench) -> None:
    service = bench.running("speech")
    numbers = [response.number for response in list(service.answer([operation(70), operation(12)]))]
    assert numbers == [70, 12]
    assert service.replayed.operations(ZERO, 10) == []
    assert service.last_logged == 0
    assert service.checkpoint().manifest.operation == 2
    assert not (bench.settings.services / "speech" / "log").exists()
    with pytest.raises(NotFoundError, match="speech has no log to examine: it is stateless"):
        service.diagnose()


def test_a_service_is_added_and_removed(bench: Bench) -> None:
    service = bench.running()
    with pytest.raises(ConflictError):
        bench.home.add_service("notes", "notes")
    list(service.answer([operation(1)]))
    bench.home.remove_service("notes")
    assert bench.home.services() == []
    assert bench.left() == []
    with pytest.raises(NotFoundError, match="there is none yet"):
        bench.home.service("notes")
    again = bench.running()
    assert (again.last_logged, executed(again)) == (0, 0)


def test_the_console_can_be_read_while_the_machine_runs_and_afterwards(bench: Bench) -> None:
    service = bench.running()
    console = service.replica().run_dir / "console.log"
    console.write_bytes(b"the service died\n")
    assert service.console(0) == (b"the service died\n", 17)
    assert service.console(17) == (b"", 17)
    service.stop()
    assert service.console(4) == (b"service died\n", 17)
    assert service.console(100) == (b"the service died\n", 17)
    assert bench.left() == []
