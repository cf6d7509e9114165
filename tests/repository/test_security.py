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
HEAD = re.compile(r"\| [\w ]*cannot \| because \| test \|")
TEST = re.compile(r"`tests/([\w/]+/test_\w+\.py)(?:::(test_\w+))?`")


def promises() -> Iterator[list[str]]:
    """Yield the cells of each row below `cannot`."""
    within = False
    for line in tree.text(PAGE).splitlines():
        if HEAD.fullmatch(line):
            within = True
        elif not line.startswith("|"):
            within = False
        elif within and not line.startswith("|---"):
            yield [cell.strip() for cell in line[2:-2].split(" | ")]


def is_there(name: str) -> bool:
    found = TEST.fullmatch(name)
    if found is None or not (tree.ROOT / "tests" / found[1]).is_file():
        return False
    source = (tree.ROOT / "tests" / found[1]).read_text()
    return found[2] is None or f"\ndef {found[2]}(" in source


def test_each_promise_names_a_test_that_is_there() -> None:
    rows = list(promises())
    assert len(rows) > 60
    assert [row for row in rows if len(row) != 3 or not is_there(row[-1])] == []


def test_no_table_promises_without_a_column_of_tests() -> None:
    heads = re.findall(r"^\|.*\bcannot\b.*\|\n\|---.*$", tree.text(PAGE), re.MULTILINE)
    assert len(heads) > 8
    assert [head for head in heads if not HEAD.fullmatch(head.splitlines()[0])] == []


def test_the_page_knows_each_attack() -> None:
    attacks = {path.name for path in tree.files() if path.parts[:2] == ("tests", "attacks")}
    named = set(re.findall(r"attacks/(test_\w+\.py)", tree.text(PAGE)))
    assert {name for name in attacks if name.startswith("test_")} - named == set()
