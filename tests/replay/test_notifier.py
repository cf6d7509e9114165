# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Time and randomness from the log, for a static program that asks the kernel itself."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from replay import AgentChannel, Operation, agent_program
from tests.replay.agents import TIME, body, http, running_agent

PRELOAD = agent_program().with_name("satchel-moment.so")
SOURCE = Path(__file__).with_name("asking.c")
BOTH = "time randomness"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("asking") / "asking"
    subprocess.run(["cc", "-O2", "-static", "-o", made, SOURCE], check=True)
    return made


@contextmanager
def fresh(folder: Path, command: str, asked: str) -> Iterator[AgentChannel]:
    folder.mkdir()
    config = {"moment": str(folder / "run" / "moment"), "asked": asked}
    running = running_agent(folder, command, **config)
    with running as agent, agent.connect() as channel:
        channel.wait_ready(60.0)
        yield channel


def ask(channel: AgentChannel, asked: Operation) -> Any:
    return json.loads(body(channel.execute(asked, 60.0).payload))


def test_two_replicas_of_a_static_program_answer_alike_and_differ_without_it(
    short_path: Path, program: Path
) -> None:
    preloaded = f"export LD_PRELOAD={PRELOAD} SATCHEL_STANDS='{BOTH}'; exec {program} $PORT raw"
    asking = f"exec {program} $PORT raw"
    setups = [("a", asking, BOTH), ("b", asking, BOTH), ("c", asking, ""), ("d", preloaded, "")]
    with ExitStack() as stack:
        channels = [stack.enter_context(fresh(short_path / n, *rest)) for n, *rest in setups]
        drawn: set[str] = set()
        for number in (1, 2, 3):
            one, other, *bare = (ask(channel, http(number, "GET", "/")) for channel in channels)
            assert one.pop("monotonic") != other.pop("monotonic")
            assert one == other
            now = TIME + number * 10**9
            assert (one["time_ns"], one["microseconds"]) == (now, now // 1000)
            assert one["seconds"] == now // 10**9
            drawn |= set(one["drawn"])
            assert len(drawn) == 3 * number
            for row in bare:
                assert row["time_ns"] != now
                assert not drawn & set(row["drawn"])


def test_what_is_drawn_is_chacha20_of_seed_and_number(short_path: Path, program: Path) -> None:
    asked = http(1, "GET", "/")
    key = asked.seed.to_bytes(8, "little") + (1).to_bytes(8, "little") + bytes(16)
    argv = ["openssl", "enc", "-chacha20", "-K", key.hex(), "-iv", bytes(16).hex()]
    made = subprocess.run(argv, input=bytes(192), capture_output=True, check=True).stdout
    with fresh(short_path / "a", f"exec {program} $PORT raw", "randomness") as channel:
        found = ask(channel, asked)
    blocks = [made[start : start + 16].hex() for start in (0, 64, 128)]
    assert found["drawn"] == blocks


def test_steady_clocks_stand_only_where_that_is_asked_for(short_path: Path, program: Path) -> None:
    with fresh(short_path / "a", f"exec {program} $PORT raw", "monotonic") as channel:
        found = ask(channel, http(1, "GET", "/"))
    assert found["monotonic"] == TIME + 10**9
    assert found["time_ns"] != TIME + 10**9


def test_children_are_asked_for_too_and_a_service_is_started_again(
    short_path: Path, program: Path
) -> None:
    """Each shell of a pipe opens files and draws nothing; the service dies once."""
    mark = short_path / "mark"
    command = (
        f"echo x | cat | cat >/dev/null; [ -e {mark} ] || {{ : >{mark}; exit 1; }}; "
        f"{program} $PORT raw"
    )
    with fresh(short_path / "a", command, BOTH) as channel:
        assert ask(channel, http(1, "GET", "/"))["time_ns"] == TIME + 10**9
        assert channel.hello(20.0).restarts == 1
