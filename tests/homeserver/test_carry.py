# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Between home and media: whatever happens on the way, the media leads on to the newest operation.

What a media is good for is tried: a machine is resumed from it alone, its log is replayed.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chunkstore import MediaFull, MediaNotFound, MediaReadOnly, Store
from homeserver import Service
from homeserver.media import carry
from homeserver.media.care import media_contents
from homeserver.media.carry import MediaOfOthers
from homeserver.media.unsealed import UnsealedPolicy
from homeserver.services import cut_operations
from homeserver.services.cut_operations import CutOperations
from homeserver.services.replayed import OperationsDiffer
from homeserver.services.service import Checkpoint, NotLaunched
from hypervisor import MachineSpec
from images import Manifest
from media import Media, checkpoints_on, read_manifest, write_checkpoints
from replay import Log, LogBusy, Operation, OperationGap, dropped_logs
from replica import MachineSnapshot, Replica
from satchel.errors import SatchelError
from satchel.ids import CHUNK_REF_SIZE, OperationNumber, ReplicaId
from tests.chunkstore.mounts import exfat, remount, tmpfs
from tests.homeserver.conftest import Bench
from tests.needs import requires
from tests.scripted import operation, scripted_driver
from volumes import local_resolver

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


@pytest.fixture
def media(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "media"
    root.mkdir()
    Media.init(root).close()
    yield root


def run(service: Service, first: int, last: int) -> None:
    list(service.answer([operation(number) for number in range(first, last + 1)]))


def log_on(service: Service, media: Path, operations: list[Operation], after: int = 0) -> None:
    """As a client does on the road."""
    path = media / "satchel" / "log" / "notes"
    with Log.open(path, after=OperationNumber(after), keys=service.log_keys.ring) as log:
        for one in operations:
            log.append(one)


def newest(media: Path) -> Manifest:
    with Media.open(media) as opened:
        (found,) = [c for c in checkpoints_on(opened) if c.service == "notes"]
        return read_manifest(opened, found)


def digest(service: Service) -> str:
    return service.replica().digest(["/state"])


@contextmanager
def resumed(manifest: Manifest, store: Store, folder: Path) -> Iterator[Replica]:
    """A machine that goes on from a checkpoint, of a store that has all of it."""
    replica = Replica(
        ReplicaId("r"),
        MachineSpec.from_json(manifest.machine),
        store,
        scripted_driver(),
        folder,
        adapter="http",
        stateful=True,
    )
    try:
        frozen = MachineSnapshot(manifest.operation, manifest.device_state, manifest.volumes)
        replica.resume(frozen, local_resolver(store), store.read)
        yield replica
    finally:
        replica.stop()


def digest_from(media: Path, scratch: Path) -> tuple[int, str]:
    """The last operation and the digest of a machine made of the media alone."""
    manifest = newest(media)
    scratch.mkdir()
    with Store.create(scratch / "store") as store, Media.open(media) as opened:
        while missing := store.missing(*manifest.roots()):
            records = opened.records(missing)
            assert records, "the media lacks chunks of its checkpoint"
            store.admit(records)
        with resumed(manifest, store, scratch / "r") as replica:
            path = media / "satchel" / "log" / "notes"
            if Log.exists(path):
                with Log.open(path, read_only=True) as log:
                    for one in log.read(manifest.operation) if log.last > replica.last else ():
                        replica.execute(one)
            return replica.last, replica.digest(["/state"])


def test_a_checkpoint_goes_onto_media(bench: Bench, media: Path, short_path: Path) -> None:
    service = bench.running()
    run(service, 1, 5)
    carried = bench.home.carry("notes", media)
    assert carried.operation == 5
    assert carried.reconciled == 0
    assert carried.media_bytes > 0
    assert digest_from(media, short_path / "x") == (5, digest(service))
    (row,) = media_contents(media)
    del row["created"]
    assert row == {
        "service": "notes",
        "checkpoint": carried.checkpoint,
        "operation": 5,
        "logged": None,
        "generations": [1],
        "whole": True,
        "left_out": 0,
        "pieces": 1,
    }


def test_what_a_resume_reads_first_is_laid_in_one_piece(bench: Bench, media: Path) -> None:
    service = bench.running()
    run(service, 1, 3)
    bench.home.carry("notes", media)
    (row,) = media_contents(media)
    assert row["pieces"] == 1
    with Media.open(media) as opened:
        first = bench.home.store.reachable(newest(media).first_roots())
        whole = bench.home.store.reachable(newest(media).roots())
        middle = first[len(first) // CHUNK_REF_SIZE // 2 * CHUNK_REF_SIZE :][:CHUNK_REF_SIZE]
        opened.add(bench.home.store, middle, again=1)
        assert opened.pieces(*newest(media).first_roots()).pieces == 3
    done = bench.home.defragment(media)
    assert done.before == {"notes": 3}
    assert done.after == {"notes": 1}
    assert done.media_bytes > 0
    assert [row["pieces"] for row in media_contents(media)] == [1]
    with Media.open(media) as opened:
        assert opened.verify().bad == ()
        assert all(opened.has(whole))


def test_the_second_time_only_changes_are_written(bench: Bench, media: Path) -> None:
    service = bench.running()
    first = bench.home.carry("notes", media)
    run(service, 1, 3)
    second = bench.home.carry("notes", media)
    assert second.media_bytes < first.media_bytes / 4
    assert second.chunks >= first.chunks
    rows = media_contents(media)
    assert [row["checkpoint"] for row in rows] == [second.checkpoint, first.checkpoint]
    third = bench.home.carry("notes", media)
    assert third.media_bytes < second.media_bytes * 2


def test_what_was_done_on_the_road_is_done_at_home(
    bench: Bench, media: Path, short_path: Path
) -> None:
    service = bench.running()
    run(service, 1, 2)
    log_on(service, media, [operation(n) for n in range(1, 151)])
    carried = bench.home.carry("notes", media)
    assert (carried.reconciled, carried.operation) == (148, 150)
    assert service.last_logged == 150
    assert digest_from(media, short_path / "x") == (150, digest(service))
    with Log.open(media / "satchel" / "log" / "notes") as log:
        assert (log.first, log.last) == (151, 150)
    run(service, 151, 160)
    bench.home.carry("notes", media)
    with Log.open(media / "satchel" / "log" / "notes") as log:
        assert (log.first, log.last) == (151, 160)  # leads on from both generations
    run(service, 161, 170)
    bench.home.carry("notes", media)
    with Log.open(media / "satchel" / "log" / "notes") as log:
        assert (log.first, log.last) == (161, 170)


def test_home_went_on_further_than_the_media(bench: Bench, media: Path) -> None:
    service = bench.running()
    log_on(service, media, [operation(n) for n in range(1, 4)])
    run(service, 1, 6)
    carried = bench.home.carry("notes", media)
    assert (carried.reconciled, carried.operation) == (0, 6)
    with Log.open(media / "satchel" / "log" / "notes") as log:
        assert (log.first, log.last) == (7, 6)


def test_the_media_begins_where_home_ends(bench: Bench, media: Path) -> None:
    service = bench.running()
    run(service, 1, 3)
    log_on(service, media, [operation(4), operation(5)], after=3)
    assert bench.home.carry("notes", media).operation == 5


def test_a_media_that_parted_from_home(bench: Bench, media: Path) -> None:
    service = bench.running()
    run(service, 1, 3)
    log_on(service, media, [operation(1), operation(2), operation(3, "/other"), operation(4)])
    with pytest.raises(OperationsDiffer, match="only the medium has its operations 3 to 4"):
        bench.home.carry("notes", media)
    assert service.last_logged == 3
    assert media_contents(media) == []
    carried = bench.home.carry("notes", media, doubtful=UnsealedPolicy.DROP)
    assert (carried.reconciled, carried.operation) == (0, 3)
    (kept,) = dropped_logs(service.shelf.root.parent / "log")
    with Log.open(kept, read_only=True) as log:
        assert list(log.read(OperationNumber(2))) == [operation(3, "/other"), operation(4)]


@pytest.mark.parametrize("checkpoints", [0, 2])
def test_a_media_that_parted_from_home_and_ends_before_it(
    bench: Bench, media: Path, checkpoints: int
) -> None:
    """Else its log would be cut, and what only it has be gone without a word. After checkpoints
    home's log has these operations no longer."""
    service = bench.running()
    run(service, 1, 6)
    for _ in range(checkpoints):
        service.checkpoint()
    bench.reopen()
    service = bench.running()
    log_on(service, media, [operation(1), operation(2), operation(3, "/other")])
    with pytest.raises(OperationsDiffer, match="operation 3 of notes differs"):
        bench.home.carry("notes", media)
    with Log.open(media / "satchel" / "log" / "notes") as log:
        assert list(log.read(OperationNumber(2))) == [operation(3, "/other")]


def test_a_media_that_leaves_operations_out(bench: Bench, media: Path) -> None:
    service = bench.running()
    run(service, 1, 3)
    log_on(service, media, [operation(6), operation(7)], after=5)
    with pytest.raises(OperationGap, match="operation 6 follows 3"):
        bench.home.carry("notes", media)
    assert service.last_logged == 3


def test_a_media_that_a_client_uses(bench: Bench, media: Path) -> None:
    bench.running()
    with Log.open(media / "satchel" / "log" / "notes"), pytest.raises(LogBusy):
        bench.home.carry("notes", media)


def test_a_service_that_does_not_run(bench: Bench, media: Path) -> None:
    service = bench.service()
    log_on(service, media, [operation(1)])
    with pytest.raises(NotLaunched):
        bench.home.carry("notes", media)
    assert service.last_logged == 1
    service.launch()
    assert bench.home.carry("notes", media).operation == 1


def test_no_media(bench: Bench, tmp_path: Path) -> None:
    bench.running()
    with pytest.raises(MediaNotFound):
        bench.home.carry("notes", tmp_path)
    with pytest.raises(MediaNotFound):
        media_contents(tmp_path)


def test_a_stateless_service(bench: Bench, media: Path) -> None:
    bench.running("speech")
    carried = bench.home.carry("speech", media)
    assert (carried.reconciled, carried.operation) == (0, 0)
    assert [row["service"] for row in media_contents(media)] == ["speech"]


STEPS: dict[str, tuple[Any, str]] = {
    "the log ends before the checkpoint": (carry, "_lead_log"),
    "nothing is copied": (Media, "add"),
    "no manifest is written": (Media, "put_checkpoint"),
    "nothing is committed": (Media, "commit"),
    "the log stays": (carry, "_cut_log"),
}


@pytest.mark.parametrize("step", list(STEPS))
def test_a_crash_at_any_step(
    bench: Bench, media: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    service = bench.running()
    bench.home.carry("notes", media)
    log_on(service, media, [operation(n) for n in range(1, 21)])

    def crash(*_: Any, **__: Any) -> Any:
        raise SatchelError("the power failed")

    with monkeypatch.context() as patch:
        patch.setattr(*STEPS[step], crash)
        with pytest.raises(SatchelError, match="the power failed"):
            bench.home.carry("notes", media)
    assert digest_from(media, short_path / "x") == (20, digest(service))
    log_on(service, media, [operation(21)], after=20)
    assert bench.home.carry("notes", media).operation == 21
    assert digest_from(media, short_path / "y") == (21, digest(service))
    assert media_contents(media)[0]["operation"] == 21


def test_a_foreign_checkpoint_on_the_media_is_not_touched(
    bench: Bench, media: Path, tmp_path: Path
) -> None:
    """One medium, two homes: what this home cannot read, it does not judge."""
    other = tmp_path / "other"
    service = bench.running()
    bench.home.carry("notes", media)
    foreign = newest(media)
    with Store.create(other) as store:
        root = store.import_bytes(b"of another home" * 1000)
        volumes = {**foreign.volumes, "disk0": root, "ram": store.import_bytes(bytes(64 << 20))}
        manifest = Manifest(
            **{
                **vars(foreign),
                "service": "theirs",
                "volumes": volumes,
                "device_state": root,
                "working_set": None,
                "profile": None,
            }
        )
        with Media.open(media) as opened:
            write_checkpoints(store, opened, [Checkpoint(manifest, b"signature")])
    for number in range(1, 4):
        run(service, number, number)
        bench.home.carry("notes", media)
    with Media.open(media) as opened, Store.open(other) as store:
        assert all(opened.has(store.reachable([root])))
        assert {c.service for c in checkpoints_on(opened)} == {"notes", "theirs"}
    assert {row["service"] for row in media_contents(media)} == {"notes", "theirs"}


def test_a_service_of_the_same_name_of_another_home_is_left_alone(
    bench: Bench, media: Path, short_path: Path
) -> None:
    other = Bench(short_path / "o")
    try:
        other.running()
        other.home.carry("notes", media)
    finally:
        other.home.close()
    theirs, service = newest(media).id, bench.running()
    log_on(service, media, [operation(number) for number in range(1, 4)])
    for act in (bench.home.carry, lambda _, root: bench.home.sync([], root)):
        with pytest.raises(MediaOfOthers, match="has notes of another home"):
            act("notes", media)
    assert (newest(media).id, service.last_logged) == (theirs, 0)
    with Log.open(media / "satchel" / "log" / "notes") as log:
        assert log.last == 3


def test_two_services_share_a_media(bench: Bench, media: Path, short_path: Path) -> None:
    service = bench.running()
    bench.running("speech")
    bench.home.carry("notes", media)
    bench.home.carry("speech", media)
    run(service, 1, 2)
    bench.home.carry("notes", media)
    assert digest_from(media, short_path / "x") == (2, digest(service))
    with Media.open(media) as opened:
        (speech,) = opened.checkpoints("speech")
        assert speech.generations == (3, 2)
        assert opened.missing(*read_manifest(opened, speech).roots()) == b""


def test_a_damaged_checkpoint_on_the_media_is_replaced(bench: Bench, media: Path) -> None:
    service = bench.running()
    bench.home.carry("notes", media)
    (manifest,) = (media / "satchel" / "checkpoints").glob("notes-*.json")
    manifest.write_bytes(b"garbage")
    assert media_contents(media) == []
    run(service, 1, 1)
    carried = bench.home.carry("notes", media)
    assert [row["checkpoint"] for row in media_contents(media)] == [carried.checkpoint]
    assert newest(media).operation == 1


def test_old_chunks_leave_the_media(bench: Bench, media: Path) -> None:
    service = bench.running()
    for number in range(1, 12):
        run(service, number, number)
        bench.home.carry("notes", media)
    refs = bench.home.store.reachable(newest(media).roots())
    with Media.open(media) as opened:
        assert opened.chunks < 3 * len(refs) // 52


@requires("root")
def test_a_full_media_keeps_what_it_has(bench: Bench, tmp_path: Path, short_path: Path) -> None:
    service = bench.running()
    with tmpfs(tmp_path / "disk", "8m"):
        root = tmp_path / "disk"
        Media.init(root).close()
        run(service, 1, 2)
        bench.home.carry("notes", root)
        room = shutil.disk_usage(root).free
        (root / "film").write_bytes(bytes(room - 8192))
        log_on(service, root, [operation(n) for n in range(1, 4)])
        with pytest.raises(MediaFull):
            bench.home.carry("notes", root)
        assert digest_from(root, short_path / "x") == (3, digest(service))
        (root / "film").unlink()
        assert bench.home.carry("notes", root).operation == 3


@requires("root")
def test_a_read_only_media(bench: Bench, tmp_path: Path, short_path: Path) -> None:
    service = bench.running()
    with tmpfs(tmp_path / "disk"):
        root = tmp_path / "disk"
        Media.init(root).close()
        bench.home.carry("notes", root)
        remount(root, "ro")
        run(service, 1, 2)
        assert len(media_contents(root)) == 1
        with pytest.raises(MediaReadOnly):
            bench.home.carry("notes", root)
        remount(root, "rw")
        assert bench.home.carry("notes", root).operation == 2


@requires("root", "loop", "mkfs.exfat", "mount.exfat-fuse")
def test_on_exfat(bench: Bench, tmp_path: Path, short_path: Path) -> None:
    service = bench.running()
    with exfat(tmp_path, 64 << 20) as root:
        Media.init(root).close()
        bench.home.carry("notes", root)
        log_on(service, root, [operation(n) for n in range(1, 31)])
        assert bench.home.carry("notes", root).operation == 30
        assert digest_from(root, short_path / "x") == (30, digest(service))


def test_the_digests_of_cut_operations_have_these_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = CutOperations(tmp_path / "cut")
    cut.add([Operation(OperationNumber(3), 4, 5, b"GET /")])
    cut.close()
    golden = "5341544355544f500100000000000000292adf620000000003000000000000001d9287e08fb78647"
    assert (tmp_path / "cut").read_bytes().hex() == golden
    monkeypatch.setattr(cut_operations, "KEPT", 2)
    cut = CutOperations(tmp_path / "cut")
    cut.add(operation(number) for number in range(4, 9))
    cut.close()
    again = CutOperations(tmp_path / "cut")
    assert [again.get(OperationNumber(number)) for number in range(6, 9)] == [
        None, operation(7).digest, operation(8).digest,
    ]  # fmt: skip
    again.close()
