# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Debian's PostgreSQL, carried, used by psql and pgbench: no connection breaks in a move, and of
what was committed a lost surrogate takes only what home's newest copy had not yet."""

import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from client.service import ServiceSession
from tests.client.carried import CarriedWorld, carried_world
from tests.client.world import carried_of
from tests.machines import MACHINE
from tests.needs import requires
from tests.services.examples import example
from tests.services.terminal import terminal
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "psql", "pgbench", "sshd", "ssh"),
]

PATIENCE_SECONDS = 300.0
SLACK_SECONDS = 5.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CarriedWorld]:
    example("postgres", tmp_path)
    with carried_world("postgres") as made:
        yield made


def database(port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}/postgres"


def asked(port: int, statement: str) -> str:
    """What psql says, in a connection of its own."""
    argv = ["psql", "-nqAtX", "-v", "ON_ERROR_STOP=1", "-c", statement, database(port)]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def pgbench(port: int, *words: str) -> subprocess.Popen[str]:
    argv = ["pgbench", *words, database(port)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def processed(running: subprocess.Popen[str]) -> int:
    """How many transactions it says it has made, none of them failed."""
    said, _ = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0, said
    facts = dict(line.split(":", 1) for line in said.splitlines() if line.count(":") == 1)
    assert facts["number of failed transactions"].split()[0] == "0", said
    return int(facts["number of transactions actually processed"].split("/")[0])


def test_pgbench_and_a_session_of_psql_go_through_a_move(world: CarriedWorld) -> None:
    session = world.session()
    port = session.port
    made = pgbench(port, "--initialize", "--quiet")
    assert made.wait(PATIENCE_SECONDS) == 0, made.communicate()
    with terminal(["psql", "-nqAtX", database(port)]) as person:
        person.types("create temp table kept as select 42 as answer; begin;\n")
        person.types("insert into kept values (43);\n\\echo 'in' serted\n")
        person.shows("in serted\r\n")
        running = pgbench(port, "--client=2", "--rate=5", "--time=120")
        print(session.move("a"))
        assert goes_on(port)
        person.types("commit; select 'sum', sum(answer) from kept;\n")
        person.shows("sum|85")
        transactions = processed(running)
        person.types("\\q\n")
        assert person.ends() == 0
    check_books(port, transactions)
    assert carried_of(session).relay.counts().reset == 0


def goes_on(port: int) -> bool:
    """Wait for pgbench's next transaction."""
    count = "select count(*) from pgbench_history"
    before = int(asked(port, count))
    return eventually(lambda: int(asked(port, count)) > before, PATIENCE_SECONDS)


def check_books(port: int, transactions: int) -> None:
    """What pgbench's four tables say of each other, and of what it has said."""
    sums = " and ".join(
        f"(select sum({kind[0]}balance) from pgbench_{kind}) = sum(delta)"
        for kind in ("accounts", "tellers", "branches")
    )
    found = asked(port, f"select count(*), {sums} from pgbench_history")
    assert found == f"{transactions}|t"


class Committing:
    """Rows that were committed, each in a transaction of its own, and when each was."""

    def __init__(self, port: int) -> None:
        self.at: dict[int, float] = {}
        self._port = port
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with terminal(["psql", "-nqAtX", database(self._port)]) as person:
            number = 0
            while not self._ending.wait(0.2):
                number += 1
                person.types(f"insert into rows values ({number}) returning 'row', number;\n")
                try:
                    person.shows(f"row|{number}\r\n", 60.0)
                except AssertionError:  # its connection has ended
                    return
                self.at[number] = time.time()

    def end(self) -> None:
        self._ending.set()
        self._thread.join()


def test_what_was_committed_before_a_loss_is_at_home(world: CarriedWorld) -> None:
    session = world.session()
    asked(session.port, "create table rows (number int primary key)")
    session.move("a")
    committing = Committing(session.port)
    assert eventually(lambda: session.status()["deltas"] >= 2, PATIENCE_SECONDS)
    assert eventually(lambda: len(committing.at) > 20, PATIENCE_SECONDS)
    world.spots["a"].cut()
    lost_at = time.time()
    assert eventually(lambda: carried_of(session).losses, PATIENCE_SECONDS)
    committing.end()
    check_rows(session, committing, lost_at)


def check_rows(session: ServiceSession, committing: Committing, lost_at: float) -> None:
    """The rows at home are the first ones, with all that are older than was promised."""
    (loss,) = carried_of(session).losses
    found = [int(row) for row in asked(session.port, "table rows order by 1").splitlines()]
    assert found == list(range(1, len(found) + 1))
    print(f"{loss}; {len(found)} of {len(committing.at)} rows are there")
    since = datetime.fromisoformat(loss.since).timestamp()
    assert {number for number, at in committing.at.items() if at < since} <= set(found)
    assert lost_at - since <= carried_of(session).behind + SLACK_SECONDS, str(loss)
