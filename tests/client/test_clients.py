# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two clients of one service: one at a time, and none takes the other one's past for its own."""

import json
import threading

import pytest
from click.testing import CliRunner

from client import ServiceSession
from client.cli import log
from client.session import feed
from client.session.home_endpoint import HomeEndpoint
from replay import Log, dropped_logs
from satchel.errors import ConflictError
from satchel.ids import OperationNumber
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


def test_a_client_that_could_not_know_of_another_one_does_not_go_on_from_its_past(
    carried: World,
) -> None:
    carried.home.cut()
    runner = carried.runner()
    runner.move("a")
    url = carried.proxy(runner)
    assert post(url).status_code == 200
    carried.home.mend()
    service = carried.home.home.service("notes")
    service.lease.release(carried.settings.client_id)
    service.lease.claim("phone")
    assert eventually(lambda: operations(runner).refusal)
    assert post(url).status_code == 409


@pytest.mark.parametrize(("checkpoints", "theirs"), [(0, 1), (2, 1), (2, 4)])
def test_histories_that_parted_are_told_at_the_next_start(
    carried: World, checkpoints: int, theirs: int
) -> None:
    """Also where home has cut its log up to its last operation, beyond the operations here."""
    runner = carried.runner()
    runner.move("a")
    carried.home.cut()
    url = carried.proxy(runner)
    for _ in range(2):
        assert post(url).headers["X-Satchel-Leader"] == "a"
    runner.close()
    carried.home.mend()
    carried.home.home.service("notes").lease.release(carried.settings.client_id)
    other = carried.runner(media=False, data=carried.folder / "p")
    url = carried.proxy(other)
    for _ in range(theirs):
        post(url)
    assert operations(other).wait_stable(60)
    other.close()
    for _ in range(checkpoints):
        carried.home.home.service("notes").checkpoint()
    late = ServiceSession(carried.settings, "notes", media=carried.stick)
    number = min(theirs, 2)
    with pytest.raises(ConflictError, match=f"operation {number} in the journal is not the one in"):
        late.start()
    late.close()
    assert carried.home.executed("notes") == theirs
    drop_what_parted(carried)


def drop_what_parted(world: World) -> None:
    """Home has another client's operations. Two of this client's are only on its stick."""
    executed = world.home.executed("notes")
    settings, runner = world.settings, CliRunner()
    words = ["notes", "--media", str(world.stick), "--json"]
    for drop, code, state in (([], 5, "parted"), (["--drop"], 0, "parted"), ([], 0, "dropped")):
        done = runner.invoke(log.command, [*words, *drop], standalone_mode=False, obj=settings)
        assert done.return_value == code, done.output
        lost = {report["state"]: report for report in json.loads(done.output)}[state]
        assert [(one["number"], one["request"]) for one in lost["lost"]] == [
            (1, "POST /api/notes"),
            (2, "POST /api/notes"),
        ]
    (kept,) = dropped_logs(settings.data / "log" / "notes")
    with Log.open(kept, read_only=True) as dropped:
        assert (dropped.first, dropped.last) == (1, 2)
    again = world.runner()
    assert post(world.proxy(again)).status_code == 200
    assert operations(again).wait_stable(60)
    assert world.home.executed("notes") == executed + 1


def test_what_another_client_did_while_this_one_slept_is_not_taken_for_its_own(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "HEARTBEAT_SECONDS", 0.2)
    asleep, awake, true = threading.Event(), threading.Event(), HomeEndpoint.position

    def sleepy(endpoint: HomeEndpoint) -> OperationNumber:
        if endpoint._home.client == carried.settings.client_id:
            asleep.set()
            awake.wait(60)
        return true(endpoint)

    runner = carried.runner()
    post(carried.proxy(runner))
    assert operations(runner).wait_stable(60)
    monkeypatch.setattr(HomeEndpoint, "position", sleepy)
    assert asleep.wait(60)
    carried.home.home.service("notes").lease.release(carried.settings.client_id)
    carried.folder.joinpath("q").mkdir()
    phone = carried.runner(
        media=False, name="phone", data=carried.folder / "p", run=carried.folder / "q"
    )
    for _ in range(3):
        post(carried.proxy(phone))
    assert operations(phone).wait_stable(60)
    phone.close()
    awake.set()
    assert eventually(lambda: operations(runner).refusal)
    assert isinstance(operations(runner).refusal, ConflictError)
    assert operations(runner).journal.stable == 1
