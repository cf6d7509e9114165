# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Somebody has had the stick in hand and put it back."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chunkstore import MediaDamaged
from client import ServiceSession
from client.session.checkpoints import OwnerOverrides
from client.state.last_seen import StateOlder
from homeserver.media.unsealed import UnsealedPolicy
from media import Media
from replay import Log, LogCorrupt, Operation, OperationsDoubtful
from replay.segments import SEGMENT_LIMIT
from satchel.files import NotRegular
from satchel.ids import OperationNumber
from tests.client.world import World, operations, post
from tests.homeserver.conftest import Bench
from tests.homeserver.test_carry import log_on, run
from tests.scripted import operation
from tests.waiting import eventually


def forge(stick: Path) -> Operation:
    """An operation behind the last one, with all its checksums, by somebody without the key."""
    with Log.open(stick / "satchel" / "log" / "notes") as log:
        forged = operation(log.last + 1, "/api/delete-everything")
        log.append(forged)
    return forged


def test_an_operation_that_was_appended_is_not_executed_at_home(bench: Bench, media: Path) -> None:
    service = bench.running()
    log_on(service, media, [operation(n) for n in range(1, 4)])
    forge(media)
    for act in (bench.home.carry, lambda _, root: bench.home.sync([], root)):
        with pytest.raises(OperationsDoubtful, match=r"1 operations .* from 4 on"):
            act("notes", media)
        assert service.last_logged == 3  # those before it are the owner's
    bench.home.sync(["notes"], media, doubtful=UnsealedPolicy.DROP)
    run(service, 4, 5)
    assert bench.home.carry("notes", media).operation == 5


def test_the_owner_may_say_that_it_is_theirs(bench: Bench, media: Path) -> None:
    """As it is after a first session in which home was never met."""
    service = bench.running()
    log_on(service, media, [operation(n) for n in range(1, 4)])
    forged = forge(media)
    assert bench.home.sync(["notes"], media, doubtful=UnsealedPolicy.ACCEPT).reconciled == 4
    assert list(service.replayed.operations(OperationNumber(3), 1)) == [forged]


def test_an_operation_that_was_appended_is_not_replayed_by_a_client(carried: World) -> None:
    runner = carried.runner()
    assert post(carried.proxy(runner)).status_code == 200
    runner.close()
    forge(carried.stick)
    with pytest.raises(OperationsDoubtful, match="from 2 on"):
        carried.runner()
    assert carried.home.home.service("notes").last_logged == 1


def test_nor_where_home_is_out_of_reach(carried: World) -> None:
    runner = carried.runner()
    assert post(carried.proxy(runner)).status_code == 200
    runner.close()
    forge(carried.stick)
    carried.home.cut()
    with pytest.raises(OperationsDoubtful, match="from 2 on"):
        carried.runner()


def test_what_a_client_logged_before_it_met_home_has_to_be_accepted(carried: World) -> None:
    """It has no key yet, so its operations look like anybody's."""
    carried.home.cut()
    runner = carried.runner()
    runner.move("a")
    assert post(carried.proxy(runner)).status_code == 200
    runner.close()
    carried.home.mend()
    refused = ServiceSession(carried.settings, "notes", media=carried.stick)
    with pytest.raises(OperationsDoubtful, match="--accept-log"):
        refused.start()
    refused.close()
    carried.runner(accepted=OwnerOverrides(log=True))
    eventually(lambda: carried.home.home.service("notes").last_logged == 1)


def test_an_old_copy_of_the_stick_is_not_gone_on_from(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    assert post(url).status_code == 200
    runner.close()
    shutil.copytree(carried.stick, carried.stick.parent / "copy")
    runner = carried.runner()
    assert post(carried.proxy(runner)).status_code == 200
    runner.close()
    shutil.rmtree(carried.stick)
    (carried.stick.parent / "copy").rename(carried.stick)
    carried.home.cut()
    refused = ServiceSession(carried.settings, "notes", media=carried.stick)
    with pytest.raises(StateOlder, match=r"ends with operation 1.*known operation 2") as caught:
        refused.start()
    refused.close()
    checkpoint = caught.value.fix.rpartition(" ")[2].strip("`")
    runner = carried.runner(accepted=OwnerOverrides(older=checkpoint))
    assert operations(runner).journal.last == 1


def test_with_home_in_reach_home_says_what_is_the_latest(carried: World) -> None:
    runner = carried.runner()
    for _ in range(2):
        assert post(carried.proxy(runner)).status_code == 200
    runner.close()
    (segment,) = (carried.stick / "satchel" / "log").glob("*.log")
    segment.unlink()
    runner = carried.runner()
    assert operations(runner).journal.last == 2


def test_a_segment_that_is_a_link_is_not_written_through(bench: Bench, media: Path) -> None:
    service = bench.running()
    log_on(service, media, [operation(1)])
    (segment,) = (media / "satchel" / "log").glob("*.log")
    theirs = media.parent / "theirs"
    segment.rename(theirs)
    before = theirs.read_bytes()
    segment.symlink_to(theirs)
    with pytest.raises(NotRegular, match="symbolic link"):
        bench.home.carry("notes", media)
    assert theirs.read_bytes() == before


def test_a_lock_that_is_a_link_makes_no_file(bench: Bench, media: Path) -> None:
    service = bench.running()
    log_on(service, media, [operation(1)])
    lock = media / "satchel" / "log" / "notes.lock"
    lock.unlink()
    lock.symlink_to(media.parent / "made")
    with pytest.raises(NotRegular):
        bench.home.carry("notes", media)
    assert not (media.parent / "made").exists()


@pytest.mark.parametrize("folder", ["satchel", "satchel/log", "satchel/packs"])
def test_a_folder_that_is_a_link_is_not_entered(bench: Bench, media: Path, folder: str) -> None:
    bench.running()
    bench.home.carry("notes", media)
    (media / folder).rename(media.parent / "elsewhere")
    (media / folder).symlink_to(media.parent / "elsewhere")
    with pytest.raises(NotRegular):
        bench.home.carry("notes", media)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("instead", [fifo, link, Path.mkdir])
def test_what_is_no_file_keeps_nobody_waiting(
    media: Path, bench: Bench, instead: Callable[[Path], None]
) -> None:
    bench.running()
    bench.home.carry("notes", media)
    found = [path for path in (media / "satchel").rglob("*") if path.is_file()]
    assert len(found) >= 5
    for path in found:
        content = path.read_bytes()
        path.unlink()
        instead(path)
        try:
            with Media.open(media) as opened:
                opened.verify()
                assert opened.uuid
        except (MediaDamaged, NotRegular):
            pass
        path.rmdir() if path.is_dir() else path.unlink()
        path.write_bytes(content)
    with Media.open(media) as opened:
        assert opened.verify().bad == ()


def test_a_segment_that_claims_eight_gibibytes(bench: Bench, media: Path) -> None:
    service = bench.running()
    log_on(service, media, [operation(1)])
    (segment,) = (media / "satchel" / "log").glob("*.log")
    os.truncate(segment, 8 << 30)
    with pytest.raises(LogCorrupt, match=str(SEGMENT_LIMIT)):
        bench.home.carry("notes", media)
    os.truncate(segment, 1 << 20)
    assert bench.home.carry("notes", media).reconciled == 1
