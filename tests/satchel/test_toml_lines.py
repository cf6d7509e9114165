# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where keys are in TOML, against what tomllib makes of the same text."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from satchel.toml_lines import key_lines, line_of

TEXT = '''\
# a = 1
name = "x" # b = 2
list = [
  1, # ] c = 3
  "]",
  { d = 4 },
]
long = """
e = 5
"""
raw = \'\'\'
f = 6 \\\'\'\'
"quoted" = 7
dotted . key = 8

[home]
port = 9

[[each]]
one = 10

  [[ each ]]
two = 11
[a.b]
c = 12
'''


def test_every_key_has_its_line_and_nothing_else_is_a_key() -> None:
    tomllib.loads(TEXT)
    rows = TEXT.splitlines()
    found = {key: rows[line - 1].strip() for key, line in key_lines(TEXT).items()}
    assert found == {
        "name": 'name = "x" # b = 2',
        "list": "list = [",
        "long": 'long = """',
        "raw": "raw = '''",
        "quoted": '"quoted" = 7',
        "dotted.key": "dotted . key = 8",
        "home": "[home]",
        "home.port": "port = 9",
        "each[1]": "[[each]]",
        "each[1].one": "one = 10",
        "each[2]": "[[ each ]]",
        "each[2].two": "two = 11",
        "a.b": "[a.b]",
        "a.b.c": "c = 12",
    }


def test_what_has_no_line_of_its_own_has_that_of_what_it_is_in() -> None:
    lines = key_lines("[home]\nlink = { port = 1 }\n")
    assert line_of(lines, "home.link.port") == 2
    assert line_of(lines, "home.else") == 1
    assert line_of(lines, "else") is None


VALUES = st.one_of(
    st.integers(0, 9).map(str),
    st.sampled_from(
        ['"a#b"', "'[x]'", '"""\nk = 1\n"""', "'''\n[t]\n'''", "[\n1,\n# y = 2\n]", "{ z = 1 }"]
    ),
)
KEYS = st.sampled_from(list("abcdefgh"))


@given(
    entries=st.dictionaries(KEYS, VALUES),
    tables=st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES)),
)
def test_random_documents(entries: dict[str, str], tables: dict[str, dict[str, str]]) -> None:
    wanted: dict[str, int] = {}
    rows: list[str] = []

    def write(key: str, text: str) -> None:
        wanted[key] = len(rows) + 1
        rows.extend(text.split("\n"))

    for key, value in entries.items():
        write(key, f"{key} = {value}")
    for name, table in tables.items():
        write(f"t{name}", f"[t{name}]")
        for key, value in table.items():
            write(f"t{name}.{key}", f"{key} = {value}")
    text = "\n".join(rows) + "\n"
    parsed: dict[str, Any] = tomllib.loads(text)
    assert len(parsed) == len(entries) + len(tables)
    assert key_lines(text) == wanted
