# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Links of the pages that lead through the code: each names a symbol that its file defines."""

import ast
import re
from pathlib import Path

import pytest

from tests.repository import tree

LINK = re.compile(r"\[([\w.:]+)\]\(([\w./-]+\.(?:py|cc|h))\)")


def defined_in(path: Path) -> set[str]:
    """The names that a file defines at its top, and those in its classes as `Class.name`."""
    if path.suffix != ".py":
        return defined_in_cpp(tree.text(path))
    names = set()
    for node in ast.parse(tree.text(path)).body:
        for name in names_of(node):
            names.add(name)
            if isinstance(node, ast.ClassDef):
                names |= {f"{name}.{inner}" for part in node.body for inner in names_of(part)}
    return names


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)]
    return [ast.unparse(target) for target in node.targets] if isinstance(node, ast.Assign) else []


def defined_in_cpp(text: str) -> set[str]:
    """Functions whose definition begins a line, with their class, and classes."""
    functions = re.findall(r"^\w[\w:<>,&* ]*?[ *&]((?:\w+::)*\w+)\(", text, re.MULTILINE)
    classes = re.findall(r"^(?:class|struct|enum class) (\w+)", text, re.MULTILINE)
    return {*functions, *classes}


@pytest.mark.parametrize("page", ["docs/tour.md", "docs/extending.md"])
def test_each_link_into_the_code_names_a_symbol_of_its_file(page: str) -> None:
    links = LINK.findall(tree.text(Path(page)))
    assert len(links) > 10
    wrong = []
    for symbol, target in links:
        path = (tree.ROOT / "docs" / target).resolve().relative_to(tree.ROOT)
        if not (tree.ROOT / path).is_file():
            wrong.append(f"{symbol}: there is no file {path}")
        elif symbol not in defined_in(path):
            wrong.append(f"{symbol}: not defined in {path}")
    assert not wrong


def test_every_link_of_the_tour_into_the_code_has_this_form() -> None:
    """A link of another form would not be looked at."""
    text = tree.text(Path("docs/tour.md"))
    assert len(re.findall(r"\]\(\.\./", text)) == len(LINK.findall(text))
