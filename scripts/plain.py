# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Count phrases that are not plain English, in docstrings, comments, messages and documents.

    python scripts/plain.py              counts by top-level folder
    python scripts/plain.py FILE...      each place in these files
    python scripts/plain.py --check      fails if a folder has more than scripts/plain-counts.txt
    python scripts/plain.py --write      lowers the counts in that file

A pattern finds a habit, not a style: a clean text may still read badly. Text in backticks is
skipped.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNTS = Path(__file__).with_name("plain-counts.txt")
LONG_SENTENCE = 35

BEGINNINGS = "Of|Those|As|From|By|Until|Where|What|Which|Who|Whose|That|To whom|With which"
RULES = {
    "begin with a noun or a verb": rf"\A(?:{BEGINNINGS})\b[^.?]{{0,160}}\.",
    "name the actor": r"\b(?:who(?:so)?ever|nobody|somebody|anybody|no one|someone|anyone)\b",
    "name the thing": r"\bwhat (?:is|are|was|were|ha[sd]|have|it|they|one|a|the|comes?|came)\b",
    "earlier, recent": r"\b(?:of|from|than) before\b|\bof late\b",
    "receives, is notified": r"\b(?:is|are|was|were|be|been|being) told\b",
    "continues": r"\b(?:go|goes|going|went|gone) on\b",
    "is, contains": r"\b(?:stands?|stood) (?:in|for|there|be\w+|above|at|on)\b",
    "after": r"\bbehind (?:it|them|that|this|one|each|a|the)\b",
    "move or drop it": r"\b(?:too|as well|beside|besides|either)\.(?:\s|\Z)",
    "must, will": r"\b(?:is|are|was|were) to (?!the\b|a\b|an\b|be\b)[a-z]+",
    "is not, does not exist": r"\b(?:is|are) (?:no|none)\b",
    "different from": r"\botherwise than\b|\bother than that\b",
    "say it here": r"\bsee the module\b|\braises (?:as|what)\b",
}
PATTERNS = {name: re.compile(rule, re.IGNORECASE) for name, rule in RULES.items()}
PATTERNS["begin with a noun or a verb"] = re.compile(RULES["begin with a noun or a verb"])


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each docstring, comment, message or paragraph of a file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _of_python(source)
    elif path.suffix == ".md":
        for part in re.finditer(r"(?:.+\n?)+", re.sub(r"```.*?```", "", source, flags=re.S)):
            yield source[: part.start()].count("\n") + 1, part.group()
    else:
        for part in re.finditer(r"(?:^[ \t]*//.*\n)+", source, re.M):
            yield source[: part.start()].count("\n") + 1, part.group().replace("//", " ")


def _of_python(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield node.lineno, node.value.value
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in [*node.exc.args, *(word.value for word in node.exc.keywords)]:
                if said := _literal(argument):
                    yield argument.lineno, said
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) or "X" for part in node.values)
    return ""


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, rule and phrase of each place of a file."""
    for line, text in texts(path):
        words = " ".join(re.sub(r"`[^`]*`", "X", text).split())
        for rule, pattern in PATTERNS.items():
            for found in pattern.finditer(words):
                yield line, rule, found.group()[:60]
        if path.suffix != ".md" or "|" not in words:
            for sentence in re.split(r"(?<=[.!?;:])\s+", words):
                if len(sentence.split()) > LONG_SENTENCE:
                    yield line, "two sentences", sentence[:60]


def counts() -> Counter[str]:
    """Return the number of places of each top-level folder; "." is the root."""
    argv = ["git", "ls-files", "*.py", "*.md", "*.cc", "*.h"]
    listed = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: Counter[str] = Counter()
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            top = name.split("/")[0] if "/" in name else "."
            found[top] += sum(1 for _ in findings(ROOT / name))
    return found


def allowed() -> dict[str, int]:
    rows = (line.split() for line in COUNTS.read_text(encoding="utf-8").splitlines())
    return {name: int(count) for count, name in rows}


def main(arguments: list[str]) -> int:
    if arguments and not arguments[0].startswith("--"):
        for name in arguments:
            for line, rule, phrase in findings(Path(name)):
                print(f"{name}:{line}: {rule}: {phrase}")
        return 0
    found = counts()
    rows = "".join(f"{count:6} {name}\n" for name, count in sorted(found.items()))
    if arguments == ["--write"]:
        COUNTS.write_text(rows, encoding="utf-8")
    if arguments == ["--check"]:
        limits = allowed()
        rows = "".join(
            f"{name}: {count} phrases, of {limits.get(name, 0)} allowed\n"
            for name, count in sorted(found.items())
            if count > limits.get(name, 0)
        )
    print(rows, end="")
    return int(arguments == ["--check"] and rows != "")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
