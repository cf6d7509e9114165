# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Roles of a bench do not take each other's processors."""

import ast
import os
from pathlib import Path

import pytest

from bench.host import measure_host
from bench.processors import apart, divide, shares
from testbed import TODAY, Host
from tests.needs import requires

ROLES = [["home"], ["surrogate-a", "surrogate-b"], ["client"]]


def allowed(host: Host, *before: str) -> set[int]:
    """What the kernel says of a process that was started there."""
    said = host.run([*before, "grep", "Cpus_allowed_list", "/proc/self/status"]).stdout
    parts = [part.split("-") for part in said.split()[1].split(",")]
    return {n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)}


@requires("root", "netns")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs 2 processors")
def test_what_runs_at_home_and_what_runs_at_a_cafe_share_no_processor() -> None:
    with apart(TODAY) as bed:
        home = allowed(bed.host("home"), "sh", "-c", '"$@"', "child")
        for name in ("surrogate-a", "surrogate-b", "client"):
            there = allowed(bed.host(name), "setsid", "--wait")
            assert there
            assert not there & home, name
    assert home <= os.sched_getaffinity(0)


@pytest.mark.parametrize("count", range(2, 20))
def test_home_is_alone_from_two_processors_on(count: int) -> None:
    found = divide(range(10, 10 + count), ROLES)
    others = [found[name] for name in found if name != "home"]
    assert set(found) == {"home", "surrogate-a", "surrogate-b", "client"}
    assert all(found.values())
    assert not any(found["home"] & other for other in others)
    assert set().union(*found.values()) <= set(range(10, 10 + count))
    if count > 2:
        assert not any(found["client"] & found[name] for name in found if name != "client")
    if count > 3:
        assert not found["surrogate-a"] & found["surrogate-b"]
        assert len({len(found[name]) for name in found if name != "client"}) == 1


def test_one_processor_is_everybody_s() -> None:
    assert set(divide([3], ROLES).values()) == {frozenset([3])}


def test_two_hosts_have_half_each() -> None:
    assert divide(range(5), [["core"], ["leaf"]]) == {
        "core": frozenset({0, 1}),
        "leaf": frozenset({2, 3}),
    }


def test_the_host_s_line_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure_host(tmp_path, quick=True).shares == shares()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert shares() == "none: home, surrogates and client share 1 processor, and slow each other"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5})
    assert shares() == "home 1, surrogates and client 1"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert shares() == "home 3, surrogates 3, client 1"


def test_no_bench_has_a_testbed_in_which_they_share() -> None:
    """But for prediction, all of whose roles are threads of one process."""
    found = set()
    for path in (*Path("bench").rglob("*.py"), *Path("papers").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Testbed":
                found.add(str(path))
    assert found == {"bench/processors.py", "papers/slingshot/world.py"}
