# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Redis in a real guest, used by redis-cli through the client's front: a protocol without HTTP."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from client.device.settings import HOME
from client.fronts import open_front
from client.session.journal import Journal
from client.session.session import Session
from replay import AgentChannel, Operation, adapters
from replay.adapters import redis
from satchel.ids import OperationNumber
from testbed.built import built_image
from tests.client.replicas import InProcess
from tests.images.guest import Guest, running
from tests.needs import requires

pytestmark = [
    pytest.mark.machine,
    requires("qemu-system-x86_64", "mmdebstrap", "apt-get", "redis-cli"),
]


TIME = 2_000_000_000 * 10**9
"""Later than any operation of a session of today."""


class InGuest(InProcess):
    """A replica that is a guest."""

    def __init__(self, guest: Guest, kind: str) -> None:
        super().__init__(HOME, patience=60.0)
        adapter = adapters.for_kind(kind)

        def says(operation: Operation) -> bytes:
            return adapter.normalise(guest.channel.execute(operation, 60.0).payload, operation)

        self.says = says


def test_redis_cli_works_on_a_guest(tmp_path: Path, short_path: Path) -> None:
    image = built_image("redis")
    with running(image, short_path) as guest:
        print(f"redis: ready after {guest.ready_seconds:.1f} s")
        session = Session(Journal(tmp_path, tmp_path), stateful=True, response_seconds=60.0)
        session.add(InGuest(guest, image.recipe.adapter_kind), OperationNumber(0))
        front = open_front(image.recipe.adapter_kind, session, 0)

        def cli(*words: str) -> str:
            argv = ["redis-cli", "-p", str(front.port), *words]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
            return done.stdout.strip()

        assert cli("SET", "two words", "x" * 100_000) == "OK"
        assert cli("GET", "two words") == "x" * 100_000
        assert [cli("INCR", "n") for _ in range(3)] == ["1", "2", "3"]
        assert cli("LRANGE", "none", "0", "-1") == ""
        for refused in ("SUBSCRIBE channel", "BLPOP none 0", "WATCH n"):
            assert "carry it" in cli(*refused.split())
        for forbidden in ("INFO", "SHUTDOWN"):
            assert "NOPERM" in cli(*forbidden.split())
        assert cli("-n", "1", "SET", "n", "other") == "OK"
        assert cli("-3", "-n", "1", "GET", "n") == "other"
        assert guest.shell("redis-cli get n").strip() == "3"
        assert "x" * 100_000 in guest.shell("cat /var/lib/redis/appendonlydir/*.aof")
        assert session.journal.last == 8 + 2 + 3
        check_the_clock_is_the_logs(session, cli)
        session.close()
        front.close()
        check_pauses_do_not_tell(guest.channel)


def check_pauses_do_not_tell(channel: AgentChannel) -> None:
    """What is done between operations, to expired keys and to tables that are too large, is done at
    operations: the answers are the same whenever a replica comes to execute them."""
    keys = [b"key%d" % number for number in range(300)]
    commands = [
        [b"FLUSHALL"],
        [b"MSET", *(part for key in keys for part in (key, b"word"))],
        [b"SET", b"short", b"lived", b"PX", b"100"],
        [b"DEL", *keys[10:]],
        [b"DBSIZE"],
        [b"SCAN", b"0"],
        [b"OBJECT", b"IDLETIME", keys[0]],
    ]

    def told(pause: float) -> list[bytes]:
        before, answers = channel.last, []
        for number, words in enumerate(commands, before + 1):
            # Where a play begins and what it does are the same distance apart each time.
            time_ns = TIME + (before * 1000 + number - before) * 10**9
            asked = Operation(OperationNumber(number), time_ns, 1, redis.encode(words))
            answers.append(channel.execute(asked, 60.0).payload)
            time.sleep(pause if words[0] == b"DEL" else 0)
        return answers[-3:]

    answers = [told(0.0), told(2.5), told(0.0)]
    print(answers[0])
    assert answers[0] == answers[1] == answers[2]


def check_the_clock_is_the_logs(session: Session, cli: Callable[..., str]) -> None:
    """To the millisecond, whatever the guest's own clock says by then."""

    def time_ms() -> int:
        operation = session.journal.get(session.journal.last)
        assert operation is not None
        return operation.time_ns // 10**6

    assert cli("SET", "short", "lived", "PX", "90000") == "OK"
    began = time_ms()
    time.sleep(0.05)
    left = int(cli("PTTL", "short"))
    assert left == 90_000 - (time_ms() - began)
    seconds, microseconds = map(int, cli("TIME").split())
    assert seconds * 1000 + microseconds // 1000 == time_ms()
