# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What needs the engine built in another way: threads under ThreadSanitizer, and the fuzzers.

The fuzzers run for a minute altogether, as many at once as there are processors, with a fixed seed;
SATCHEL_FUZZ_SECONDS is another time, and CI's is 300. `scripts/fuzz` runs one of them for longer.
A nightly run tries 50 million inputs, others each time; SATCHEL_FUZZ_INPUTS is another number.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pybind11
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
FUZZ_SECONDS = float(os.environ.get("SATCHEL_FUZZ_SECONDS", "60"))
FUZZ_INPUTS = int(os.environ.get("SATCHEL_FUZZ_INPUTS", "50_000_000"))
ALWAYS_MADE = 1000
"""Inputs that even the slowest fuzzer tries in its share of the time."""

pytestmark = requires("clang++")


@pytest.fixture(scope="module")
def threaded() -> Path:
    """The concurrent tests under ThreadSanitizer."""
    build = ROOT / "build" / "tsan"
    if not (build / "build.ninja").exists():
        configure = [
            "cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
            "-DCMAKE_CXX_FLAGS=-O1 -g1", "-DSATCHEL_SANITIZE=thread",
            "-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++",
            f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
        ]  # fmt: skip
        subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", str(build), "--target", "concurrency_tests"], check=True)
    return build / "tests" / "native" / "concurrency_tests"


Run = subprocess.CompletedProcess[str]


def fuzz(name: str, limit: str, count: int, seed: int) -> Run:
    argv = [str(ROOT / "scripts/fuzz"), name, limit, str(count), "--seed", str(seed)]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


def tried(done: Run) -> int:
    """Inputs of a run that found no fault."""
    print(*done.args, done.stdout + done.stderr)
    assert done.returncode == 0
    found = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    assert found is not None
    return int(found.group(1))


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, "Future[Run]"]]:
    """Of each test of a fuzzer in this session, by its name: as many at once as processors."""
    subprocess.run([str(ROOT / "scripts" / "fuzz"), "--build"], check=True)
    wanted = {item.name for item in request.session.items}
    seconds = max(1, round(FUZZ_SECONDS / len(FUZZERS)))
    inputs, seed = -(-FUZZ_INPUTS // len(FUZZERS)), random.SystemRandom().getrandbits(31)
    each = {
        "test_no_input_breaks_a_parser": ("--seconds", seconds, 20261121),
        "test_millions_of_inputs_each_night": ("--inputs", inputs, seed),
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            test: pool.submit(fuzz, name, *limits)
            for what, limits in each.items()
            for name in FUZZERS
            if (test := f"{what}[{name}]") in wanted
        }


@pytest.mark.parametrize("name", THREADED)
def test_threads_do_not_race(threaded: Path, name: str) -> None:
    run(threaded, name, nightly=False)


@pytest.mark.parametrize("name", FUZZERS)
def test_no_input_breaks_a_parser(
    request: pytest.FixtureRequest, runs: dict[str, "Future[Run]"], name: str
) -> None:
    assert tried(runs[request.node.name].result()) > ALWAYS_MADE


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("name", FUZZERS)
def test_millions_of_inputs_each_night(
    request: pytest.FixtureRequest, runs: dict[str, "Future[Run]"], name: str
) -> None:
    """Those of all fuzzers together are FUZZ_INPUTS. The command, with its seed, is printed."""
    assert tried(runs[request.node.name].result()) >= FUZZ_INPUTS // len(FUZZERS)
