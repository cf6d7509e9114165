# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two machines that executed the same log give the same bytes and have the same state."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chunkstore import Store
from replica import Replica
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires
from tests.replica.machine import asked, check_file_system, resumed, shell
from tests.replica.notebook import http, notebook

OPERATIONS = 200


@requires(*MACHINE)
def test_two_replicas_of_one_log(
    notes_checkpoint: NotesCheckpoint, short_path: Path, tmp_path: Path
) -> None:
    log = [notebook(number) for number in range(1, OPERATIONS + 1)]

    last = http(OPERATIONS + 1, "GET", "/export")

    def run(replica: Replica) -> tuple[list[bytes], str, bytes, str]:
        responses = [replica.execute(operation).payload for operation in log]
        state = replica.digest(list(notes_checkpoint.manifest.contract.state))
        everything = replica.execute(last)
        found = asked(replica)
        check_file_system(replica)
        return responses, state, everything.payload, found

    with (
        Store.open(notes_checkpoint.copy_store(tmp_path / "store")) as store,
        resumed(notes_checkpoint, store, short_path / "a") as one,
        resumed(notes_checkpoint, store, short_path / "b") as other,
        ThreadPoolExecutor(2) as threads,
    ):
        first, second = threads.map(run, (one, other))
    for operation, ours, theirs in zip(log, first[0], second[0], strict=True):
        assert ours == theirs, operation.payload
    assert first[1:] == second[1:]
    assert first[3].startswith(f"{last.time_ns} ")
    statuses = [response.split()[1] for response in first[0]]
    assert set(statuses) == {b"200", b"201", b"204", b"404"}
    assert statuses.count(b"201") > OPERATIONS // 2


@requires(*MACHINE)
def test_a_clock_that_runs_on_while_the_machine_sleeps(
    notes_checkpoint: NotesCheckpoint, short_path: Path, tmp_path: Path
) -> None:
    """A guest that sleeps finds its clock years off: ahead, then back at the next operation's time.

    Its SQLite file and its answers are those of a guest that never slept.
    """
    log = [notebook(number) for number in range(1, 21)]
    sleeps = {5: "2039-01-01", 10: "1999-01-01", 15: "2031-07-01"}

    def run(replica: Replica, *, sleeping: bool) -> tuple[list[bytes], str]:
        responses = []
        for operation in log:
            if sleeping and (moment := sleeps.get(operation.number)):
                shell(replica, f"date -s {moment}")
            responses.append(replica.execute(operation).payload)
        check = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]))"
        path = "/var/lib/notes/notes.db"
        found = shell(replica, f"python3 -c '{check}' {path} 'pragma integrity_check'")
        assert found == "('ok',)\n"
        return responses, replica.digest(list(notes_checkpoint.manifest.contract.state))

    with Store.open(notes_checkpoint.copy_store(tmp_path / "store")) as store:
        with resumed(notes_checkpoint, store, short_path / "a") as awake:
            expected = run(awake, sleeping=False)
        with resumed(notes_checkpoint, store, short_path / "b") as asleep:
            assert run(asleep, sleeping=True) == expected
