# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The threat model is tested: each promise of docs/security.md names a test that is there, and the
page knows each attack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.repository import tree

PAGE = Path("docs/security.md")
POSSIBLE = re.compile(r"\| (?:who \| can|can \|) \| test \|")
HEAD = re.compile(r"\| [\w ]*cannot \| because \| test \|")
TEST = re.compile(r"`tests/([\w/]+/test_\w+\.py)(?:::(test_\w+))?`")


def rows_below(head: re.Pattern[str]) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables with that head."""
    within = False
    for line in tree.text(PAGE).splitlines():
        if head.fullmatch(line):
            within = True
        elif not line.startswith("|"):
            within = False
        elif within and not line.startswith("|---"):
            yield re.split(r"\s*\|\s*", line[2:-2])


def is_there(name: str) -> bool:
    found = TEST.fullmatch(name)
    if found is None or not (tree.ROOT / "tests" / found[1]).is_file():
        return False
    source = (tree.ROOT / "tests" / found[1]).read_text()
    return found[2] is None or f"\ndef {found[2]}(" in source


def test_each_promise_names_a_test_that_is_there() -> None:
    rows = list(rows_below(HEAD))
    assert len(rows) > 60
    assert [row for row in rows if len(row) != 3 or not is_there(row[-1])] == []


def test_what_is_possible_names_the_test_of_its_limit_or_none() -> None:
    rows = list(rows_below(POSSIBLE))
    assert len(rows) > 30
    assert [row for row in rows if row[-1] != "none" and not is_there(row[-1])] == []


def test_no_table_promises_without_a_column_of_tests() -> None:
    heads = re.findall(r"^(\|.*\bcan(?:not)?\b.*\|)\n\|---.*$", tree.text(PAGE), re.MULTILINE)
    assert len(heads) > 16
    known = (HEAD.fullmatch, POSSIBLE.fullmatch)
    assert [head for head in heads if not any(is_known(head) for is_known in known)] == []


def test_the_page_knows_each_attack() -> None:
    attacks = {path.name for path in tree.files() if path.parts[:2] == ("tests", "attacks")}
    named = set(re.findall(r"attacks/(test_\w+\.py)", tree.text(PAGE)))
    assert {name for name in attacks if name.startswith("test_")} - named == set()
