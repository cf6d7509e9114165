# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The C++ parts keep the floors too, the core has no Python in it, and functions stay short."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.repository import tree
from tests.repository.test_sources import FUNCTION_LINES

CORE_ROOMS = ("os", "format", "index", "packs", "volume", "store", "media", "tools")
"""From the lowest to the highest."""

QUOTED = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
ANY_INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
NO_FUNCTION = re.compile(
    r"^\s*(?:(?:if|for|while|switch|catch|do|else|return|namespace|class|struct|enum|union|extern)\b)"
)
SCOPE = re.compile(
    r"^\s*(?:template\s*<.*>\s*)?(?:namespace|class|struct|union|extern)\b", re.DOTALL
)


def sources() -> list[Path]:
    return tree.with_suffix(".cc", ".c", ".h")


def functions(code: str) -> Iterator[tuple[int, int]]:
    """First line and number of lines of every function body, its head included."""
    blank = NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), code)
    blank = re.sub(r"^[ \t]*#.*", "", blank, flags=re.MULTILINE)
    blank = re.sub(r"\b(?:public|private|protected):", "", blank)
    heads: list[tuple[bool, int]] = []
    start = 0
    for found in re.finditer(r"[{};]", blank):
        if found.group() == "{":
            head = blank[start : found.start()]
            in_scope = all(not is_function for is_function, _ in heads)
            is_function = in_scope and "(" in head and not NO_FUNCTION.match(head)
            is_block = not in_scope or is_function or not SCOPE.match(head)
            first = blank.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
            heads.append((is_block, first if is_function else 0))
        elif found.group() == "}" and heads:
            _, first = heads.pop()
            if first:
                yield first, blank.count("\n", 0, found.end()) + 1 - first + 1
        start = found.end()


def test_functions_are_found_as_they_are_written() -> None:
    code = """namespace a {
class B : public C {
 public:
  explicit B(int x)
      : x_(x) {
    if (x) { f("}"); }  // }
  }
  int g() const override { return 1'000; }
};
}  // namespace a
int main() {
}
"""
    assert list(functions(code)) == [(4, 4), (8, 1), (11, 2)]


def test_functions_are_at_most_70_lines() -> None:
    long = [
        f"{path}:{first}: {lines} lines"
        for path in sources()
        for first, lines in functions(tree.text(path))
        if lines > FUNCTION_LINES
    ]
    assert not long


def test_includes_keep_the_floors() -> None:
    upward = []
    for path in sources():
        if path.parts[0] not in tree.packages():
            continue
        allowed = {path.parts[0], *tree.below(path.parts[0])}
        for included in QUOTED.findall(tree.text(path)):
            top = included.split("/")[0]
            if "/" in included and top in tree.packages() and top not in allowed:
                upward.append(f"{path}: {included}")
    assert not upward


def test_includes_of_the_core_go_to_its_own_room_and_lower_ones() -> None:
    core = Path("chunkstore", "core")
    files = [path for path in sources() if core in path.parents]
    assert {path.parent.relative_to(core).as_posix() for path in files} == set(CORE_ROOMS)
    upward = [
        f"{path}: {included}"
        for path in files
        for included in QUOTED.findall(tree.text(path))
        if Path(included).parent.name not in CORE_ROOMS[: CORE_ROOMS.index(path.parent.name) + 1]
    ]
    assert not upward


def test_own_headers_are_included_by_their_path_from_the_root() -> None:
    relative = [
        f"{path}: {included}"
        for path in sources()
        for included in QUOTED.findall(tree.text(path))
        if not (tree.ROOT / included).is_file()
    ]
    assert not relative


def test_the_core_knows_neither_python_nor_nbdkit() -> None:
    foreign = [
        f"{path}: {included}"
        for path in sources()
        if path.parts[:2] == ("chunkstore", "core")
        for included in ANY_INCLUDE.findall(tree.text(path))
        if re.match(r"Python\.h|pybind11/|nbdkit", included)
    ]
    assert not foreign


def test_headers_have_guards_named_for_their_path() -> None:
    wrong = []
    for path in tree.with_suffix(".h"):
        guard = "SATCHEL_" + re.sub(r"\W", "_", str(path)).upper() + "_"
        if f"#ifndef {guard}\n#define {guard}\n" not in tree.text(path):
            wrong.append(f"{path}: {guard}")
    assert not wrong
