# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What needs the engine built in another way: threads under ThreadSanitizer, and the fuzzers.

The fuzzers run for a minute altogether, with a fixed seed; SATCHEL_FUZZ_SECONDS is another time.
`scripts/fuzz` runs one of them for longer.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pybind11
import pytest

from tests.native.test_native import NAMES, run
from tests.needs import requires

ROOT = Path(__file__).parents[2]
THREADED = [name for name in NAMES if name.startswith("Concurrency.")]
FUZZERS = sorted(path.stem for path in (ROOT / "tests/native/fuzz").glob("*.cc"))
FUZZERS.remove("seeds")
FUZZ_SECONDS = float(os.environ.get("SATCHEL_FUZZ_SECONDS", "60"))
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


@pytest.fixture(scope="module")
def fuzzers() -> None:
    subprocess.run([str(ROOT / "scripts" / "fuzz"), "--build"], check=True)


@pytest.mark.parametrize("name", THREADED)
def test_threads_do_not_race(threaded: Path, name: str) -> None:
    run(threaded, name, nightly=False)


@pytest.mark.parametrize("name", FUZZERS)
@pytest.mark.usefixtures("fuzzers")
def test_no_input_breaks_a_parser(name: str) -> None:
    each = max(1, round(FUZZ_SECONDS / len(FUZZERS)))
    argv = [str(ROOT / "scripts/fuzz"), name, "--seconds", str(each), "--seed", "20261121"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    print(done.stdout + done.stderr)
    assert done.returncode == 0
    tried = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    assert tried is not None
    assert int(tried.group(1)) > ALWAYS_MADE
