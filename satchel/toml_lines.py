# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""In which line of a TOML file each key is, which `tomllib` does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'|"
    r"\#[^\n]*|"
    r"[^\"'\#\n=\[\]{}]+|"
    r".",
    re.DOTALL,
)
_OPENING, _CLOSING = "[{", "]}"


def key_lines(text: str) -> dict[str, int]:
    """Line numbers from 1, by keys as `home.port`, `rehearsal[2].body`, for a text that `tomllib`
    takes. Tables are there too; what an inline table holds is not."""
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    prefix = ""
    for number, statement in _statements(text):
        if statement[:1] == ["["]:
            name = _name(part for part in statement if part not in ("[", "]"))
            prefix = f"{name}."
            if statement[1:2] == ["["]:
                counts[name] = counts.get(name, 0) + 1
                prefix = f"{name}[{counts[name]}]."
            lines.setdefault(prefix[:-1], number)
        elif "=" in statement:
            lines.setdefault(prefix + _name(statement[: statement.index("=")]), number)
    return lines


def line_of(lines: dict[str, int], key: str) -> int | None:
    """The line of a key, or of the nearest table or array around it that has one."""
    while key and key not in lines:
        shorter = max(key.rfind("."), key.rfind("["))
        key = key[: max(shorter, 0)]
    return lines.get(key)


def _statements(text: str) -> list[tuple[int, list[str]]]:
    """The tokens of each table's head and each key with its value, and where it begins."""
    found: list[tuple[int, list[str]]] = []
    tokens: list[str] = []
    number = begins = 1
    depth = 0
    for token in _TOKEN.findall(text.replace("\r\n", "\n")):
        if token == "\n" and depth == 0:
            if tokens:
                found.append((begins, tokens))
            tokens = []
        elif token.strip() and not token.startswith("#"):
            if not tokens:
                begins = number
            tokens.append(token.strip())
            depth += (token in _OPENING) - (token in _CLOSING)
        number += token.count("\n")
    return [*found, (begins, tokens)] if tokens else found


def _name(parts: Iterable[str]) -> str:
    return "".join(re.sub(r"\s*\.\s*", ".", part).strip("\"'") for part in parts)
