# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What needs the engine built in another way: threads under ThreadSanitizer, and the fuzzers.

The fuzzers run for 40 s altogether, as many at once as there are processors, with a fixed seed;
SATCHEL_FUZZ_SECONDS is another time. `scripts/fuzz` runs one of them for longer.
A nightly run tries 50 million inputs, others each time; SATCHEL_FUZZ_INPUTS is another number.
"""

import os
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.native.test_native import PROGRAMS, run
from tests.needs import requires

ROOT = Path(__file__).parents[2]
THREADED = [
    name
    for name in PROGRAMS
    if name.startswith(("Concurrency.", "Reclaim.", "UnpackedBlocks.", "Writing."))
]
FUZZERS = sorted(path.stem for path in (ROOT / "tests/native/fuzz").glob("*.cc"))
FUZZERS.remove("seeds")
FUZZ_SECONDS = float(os.environ.get("SATCHEL_FUZZ_SECONDS", "40"))
FUZZ_INPUTS = int(os.environ.get("SATCHEL_FUZZ_INPUTS", "50_000_000"))
ALWAYS_MADE = 1000
"""Inputs that even the slowest fuzzer tries in its share of the time."""
EACH_NIGHT = FUZZ_INPUTS // 200
"""The least that each fuzzer tries in a night: some are a hundred times as slow as others."""
TURN_SECONDS = 30

pytestmark = requires("clang++")


@pytest.fixture(scope="module")
def threaded() -> Path:
    """The concurrent tests under ThreadSanitizer."""
    subprocess.run([str(ROOT / "scripts" / "sanitizers"), "threads"], check=True)
    return ROOT / "build" / "tsan" / "tests" / "native" / "concurrency_tests"


Run = subprocess.CompletedProcess[str]


def fuzz(name: str, seconds: int, seed: int) -> Run:
    argv = [str(ROOT / "scripts/fuzz"), name, "--seconds", str(seconds), "--seed", str(seed)]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


def tried(done: Run) -> int:
    """Inputs of a run that found no fault."""
    print(*done.args, done.stdout + done.stderr)
    assert done.returncode == 0
    found = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    assert found is not None
    return int(found.group(1))


@pytest.fixture(scope="module")
def built() -> None:
    """The fuzzers are."""
    subprocess.run([str(ROOT / "scripts" / "fuzz"), "--build"], check=True)


@pytest.fixture(scope="module")
def fuzzed(request: pytest.FixtureRequest, built: None) -> Iterator[dict[str, "Future[Run]"]]:
    """The runs of the fuzzers that this session has tests of."""
    wanted = {item.name for item in request.session.items}
    each = max(1, round(FUZZ_SECONDS / len(FUZZERS)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            name: pool.submit(fuzz, name, each, 20261121)
            for name in FUZZERS
            if f"test_no_input_breaks_a_parser[{name}]" in wanted
        }


@pytest.mark.parametrize("name", THREADED)
def test_threads_do_not_race(threaded: Path, name: str) -> None:
    run(threaded, name, nightly=False)


@pytest.mark.parametrize("name", FUZZERS)
def test_no_input_breaks_a_parser(fuzzed: dict[str, "Future[Run]"], name: str) -> None:
    assert tried(fuzzed[name].result()) > ALWAYS_MADE


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_millions_of_inputs_each_night(built: None) -> None:
    """The fuzzers have turns of the same length, as many at once as there are processors, until
    they have tried FUZZ_INPUTS together and each EACH_NIGHT. Commands, with seeds, are printed."""
    made: Counter[str] = Counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while made.total() < FUZZ_INPUTS or min(made[name] for name in FUZZERS) < EACH_NIGHT:
            seed = random.SystemRandom().getrandbits(31)
            turns = {name: pool.submit(fuzz, name, TURN_SECONDS, seed) for name in FUZZERS}
            made.update({name: tried(turn.result()) for name, turn in turns.items()})
            print(made.total(), dict(made), flush=True)
