# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Mutants: what is changed and what is not; nightly, whether the tests notice."""

import runpy
import subprocess
import sys

import pytest

from tests.repository import tree

SCRIPT = tree.ROOT / "scripts" / "mutate.py"
MUTATE = runpy.run_path(str(SCRIPT))

PYTHON = """
LIMIT: list[int, 3] = []

def f(n: "1 < 2"):
    \"\"\"Not 1 < 2.\"\"\"
    logger.info("%d", n + 1)
    assert n > 0
    if not n < 7:
        raise ValueError(f"{n + 1} is no number", 3)
    return f"{n - 1}"
"""
CPP = """
#include <1>
// a < b
static_assert(a == b, "1 < 2");
  if (a < b && !c) return {};
  std::vector<int> found("x + y");
  Act(found);
  *end = at;
"""


@pytest.mark.parametrize(
    ("rules", "text", "expected"),
    [
        (
            "python_mutants",
            PYTHON,
            {
                ("if not n < 7:", "if (n < 7):"),
                ("if not n < 7:", "if not (n <= 7):"),
                ("if not n < 7:", "if not (n >= 7):"),
                ("if not n < 7:", "if not n < (8):"),
                ("if not n < 7:", "if not n < (6):"),
                ('raise ValueError(f"{n + 1} is no number", 3)', "pass"),
                ('return f"{n - 1}"', "return None"),
            },
        ),
        (
            "cpp_mutants",
            CPP,
            {
                ("if (a < b && !c) return {};", "if (a <= b && !c) return {};"),
                ("if (a < b && !c) return {};", "if (a >= b && !c) return {};"),
                ("if (a < b && !c) return {};", "if (a < b || !c) return {};"),
                ("if (a < b && !c) return {};", "if (a < b && c) return {};"),
                ("Act(found);", ";"),
                ("*end = at;", ";"),
            },
        ),
    ],
)
def test_rules_change_what_runs_and_no_words(
    rules: str, text: str, expected: set[tuple[str, str]]
) -> None:
    assert {mutant.lines() for mutant in MUTATE[rules](text)} == expected


@pytest.mark.parametrize("name", MUTATE["FILES"])
def test_equivalent_mutants_are_mutants(name: str) -> None:
    assert MUTATE["mutants"](name, tree.text(tree.ROOT / name))


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", MUTATE["FILES"])
def test_the_tests_of_a_file_notice_its_mutants(name: str) -> None:
    argv = [sys.executable, str(SCRIPT), "--sample", "40", name]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
