# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Time and randomness from the log, for services that ask the machine for them."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from replay import AgentChannel, Operation, adapters, agent_program
from satchel.ids import OperationNumber
from tests.needs import requires
from tests.replay.agents import TIME, body, http, running_agent

SERVICE = Path(__file__).with_name("asking.py")
PRELOAD = agent_program().with_name("satchel-moment.so")
BOTH = "time randomness"
AHEAD = 72 * 365 * 86_400


@contextmanager
def fresh(folder: Path, stands: str, *words: str) -> Iterator[AgentChannel]:
    """A service that asks the machine. stands: of what it is given the log's."""
    folder.mkdir()
    asking = f"{sys.executable} {SERVICE} $PORT {' '.join(words)}"
    preload = f"export LD_PRELOAD={PRELOAD} SATCHEL_STANDS='{stands}'; " if stands else ""
    moment = {"moment": str(folder / "run" / "moment")}
    running = running_agent(folder, f"{preload}exec {asking}", **moment)
    with running as agent, agent.connect() as channel:
        channel.wait_ready(20.0)
        yield channel


def ask(channel: AgentChannel, asked: Operation) -> Any:
    return json.loads(body(channel.execute(asked, 20.0).payload))


def test_two_fresh_replicas_answer_alike_and_differ_without_it(short_path: Path) -> None:
    names = {"a": BOTH, "b": BOTH, "c": ""}
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        made = [fresh(short_path / name, stands) for name, stands in names.items()]
        channels = list(pool.map(stack.enter_context, made))
        drawn: set[str] = set()
        for number in (1, 2, 3):
            one, other, bare = (ask(channel, http(number, "GET", "/")) for channel in channels)
            steady = one.pop("monotonic"), other.pop("monotonic")
            assert one == other
            assert one.pop("slept") >= 0.02
            assert not set(map(str, one.values())) & set(map(str, bare.values()))
            assert one["time_ns"] == TIME + number * 10**9
            assert steady[0] != one["time_ns"]
            drawn |= set(one["drawn"])
            assert len(drawn) == number * len(one["drawn"])


def test_what_is_drawn_is_chacha20_of_seed_and_number(short_path: Path) -> None:
    asked = http(1, "GET", "/")
    key = asked.seed.to_bytes(8, "little") + (1).to_bytes(8, "little") + bytes(16)
    argv = ["openssl", "enc", "-chacha20", "-K", key.hex(), "-iv", bytes(16).hex()]
    made = subprocess.run(argv, input=bytes(100), capture_output=True, check=True).stdout
    with fresh(short_path / "a", "randomness") as channel:
        found = ask(channel, asked)
        assert found["drawn"][0] == made.hex()
        assert abs(found["time_ns"] - time.time_ns()) < 600 * 10**9


def test_the_steady_clock_goes_on_after_a_jump_and_no_read_moves_it(short_path: Path) -> None:
    def at(number: int, seconds: int) -> Operation:
        time_ns = TIME + seconds * 10**9
        payload = adapters.http.encode("GET", "/", [], b"", number=1, time_ns=1, seed=1)
        return Operation(OperationNumber(number), time_ns, number, payload)

    with fresh(short_path / "a", "monotonic", "no-sleep") as channel:
        seen = [ask(channel, at(1, 100))["monotonic"]]
        seen += [json.loads(body(channel.read(at(2, 900)).payload))["monotonic"]]
        times = enumerate((50, 60, AHEAD, 70, 80), 2)
        seen += [ask(channel, at(number, seconds))["monotonic"] for number, seconds in times]
    steady = (100, 100, 100, 110, 50 + AHEAD, 50 + AHEAD, 60 + AHEAD)
    assert [nanoseconds - TIME for nanoseconds in seen] == [n * 10**9 for n in steady]


@requires("openssl")
def test_tls_inside_goes_by_the_operations_time(short_path: Path) -> None:
    key, certificate = short_path / "key", short_path / "certificate"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-nodes", "-days", "1", "-subj", "/CN=inside", "-addext", "subjectAltName=DNS:inside"]
    argv += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)
    verdicts = []
    for name in "ab":
        with fresh(short_path / name, BOTH, str(certificate), str(key)) as channel:
            for number, days in ((1, 0.5), (2, 400.0), (3, 0.6)):
                time_ns = time.time_ns() + round(days * 86_400e9)
                asked = http(number, "GET", "/tls")
                moved = Operation(asked.number, time_ns, asked.seed, asked.payload)
                verdicts.append(ask(channel, moved))
    assert verdicts == ["TLSv1.3", "certificate has expired", "TLSv1.3"] * 2


@pytest.mark.parametrize("name", ["/nowhere/at/all/moment", ""])
def test_without_a_moment_a_program_has_the_machines(name: str) -> None:
    program = "import os, time; print(len(os.urandom(8)), time.time() > 1.7e9, time.monotonic())"
    environment = {"LD_PRELOAD": str(PRELOAD), "SATCHEL_STANDS": BOTH, "SATCHEL_MOMENT": name}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("8 True ")
    assert not done.stderr
