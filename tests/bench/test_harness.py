# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Figures, goals and the registry of benches."""

import importlib
import json
import subprocess
import sys
import typing
from collections.abc import Iterator

import pytest

from bench import Figure, figure
from bench.harness import BENCHES, figures_of
from satchel.errors import NotFoundError


def test_a_figure_is_one_json_line_with_every_field() -> None:
    line = figure("import A", 2.0, "s", against=("borg", 7.0), at_most=0.5).to_json()
    assert json.loads(line) == {
        "name": "import A",
        "value": 2.0,
        "unit": "s",
        "compared_with": "borg",
        "ratio": 0.2857,
        "goal": "ratio <= 0.5",
        "holds": True,
        "bound": None,
        "bounded_by": None,
    }
    assert "\n" not in line


def test_a_bound_stands_beside_the_figure() -> None:
    line = json.loads(figure("import A", 50.0, "MB/s", bound=("the disk's writes", 60.0)).to_json())
    assert (line["bound"], line["bounded_by"]) == (60.0, "the disk's writes")


def test_a_goal_is_about_the_value_where_nothing_is_compared() -> None:
    assert figure("error", 6.0, "%", at_most=5) == Figure(
        "error", 6.0, "%", goal="<= 5 %", holds=False
    )
    assert figure("rate", 6.0, "MB/s", at_least=5).holds is True
    assert figure("rate", 6.0, "MB/s").holds is None


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_has_figures(name: str) -> None:
    module = importlib.import_module(BENCHES[name])
    whole = [module.figures] if hasattr(module, "figures") else list(module.PARTS.values())
    assert whole
    for figures in whole:
        assert typing.get_type_hints(figures)["return"] == Iterator[Figure]


def test_a_bench_without_figures_of_its_own_has_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    store = importlib.import_module(BENCHES["store"])
    for part in store.PARTS:
        made = figure(part, 1.0, "MB")
        monkeypatch.setitem(store.PARTS, part, lambda _, made=made: iter([made]))
    assert [each.name for each in figures_of("store", quick=True)] == list(store.PARTS)


def test_a_part_of_a_bench_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    store = importlib.import_module(BENCHES["store"])
    monkeypatch.setitem(
        store.PARTS, "import", lambda quick: iter([figure("import", float(quick), "MB")])
    )
    assert [each.value for each in figures_of("store.import", quick=True)] == [1.0]
    assert [each.value for each in figures_of("store.import")] == [0.0]
    with pytest.raises(NotFoundError, match=r"no part moon; there is .*store\.import"):
        figures_of("store.moon")
    with pytest.raises(NotFoundError, match="only the whole of link"):
        figures_of("link.store")


def test_an_unknown_bench_is_named_with_those_that_are() -> None:
    with pytest.raises(NotFoundError, match=r"no bench moon; there are .*link.*store"):
        figures_of("moon")
    argv = [sys.executable, "-m", "bench", "moon"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == NotFoundError.exit_code
    assert done.stdout == ""
