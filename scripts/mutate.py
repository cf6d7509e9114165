#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Break one place of a file at a time, and run the tests of that file: do they notice?

    .venv/bin/python scripts/mutate.py --all client/session/journal.py
    .venv/bin/python scripts/mutate.py --sample 20 --seed 7     20 mutants of each file

A mutant is the file with one change: a comparison, a connective, plus or minus, a constant, a
result, or a removed statement. It is killed if a test fails or takes too long, and does not count
if it does not compile. scripts/mutants.toml has the tests of each file, the quickest first, the
mutants that no test can kill, with the reason, and the percentage that has to be killed. The exit
status is 1 if fewer are.
"""

import argparse
import ast
import copy
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FILES = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="ascii"))
SECONDS = 60.0  # of a file's tests, and five times as much as they take without a change
MEMORY = 4 << 30  # bytes; a loop without an end must not take all of the host's

PYTEST = f"{sys.executable} -m pytest -x -q -n0 -p no:cacheprovider"
MAKE = "cmake --build build --target"
COMPILE = f"{MAKE} satchel_core"
CONFIGURE = f"""cmake -S . -B build -G Ninja -DPython_EXECUTABLE={sys.executable} \
  -Dpybind11_DIR="$({sys.executable} -m pybind11 --cmakedir)" &&
  {MAKE} native_tests"""

SWAPS = """Lt LtE GtE, LtE Lt Gt, Gt GtE LtE, GtE Gt Lt, Eq NotEq, NotEq Eq, Is IsNot, IsNot Is,
  In NotIn, NotIn In, And Or, Or And, Add Sub, Sub Add, < <= >=, <= < >, > >= <=, >= > <, == !=,
  != ==, && ||, || &&, + -, - +, += -=, -= +=, ++ --, true false, false true"""
OTHERS = {old: new for old, *new in map(str.split, SWAPS.split(","))}
"""The replacements of each operator: Python's by the names of `ast`, and C++'s."""


class Mutant(NamedTuple):
    """A text in which `new` takes the place of the characters from `begin` to `end`."""

    text: str
    begin: int
    end: int
    new: str

    def changed(self) -> str:
        return self.text[: self.begin] + self.new + self.text[self.end :]

    def lines(self) -> tuple[str, str]:
        """Return the lines before and after the change."""
        begin = self.text.rfind("\n", 0, self.begin) + 1
        end = self.text.index("\n", self.end)
        after = self.text[begin : self.begin] + self.new + self.text[self.end : end]
        return " ".join(self.text[begin:end].split()), " ".join(after.split())


def python_mutants(text: str) -> Iterator[Mutant]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))  # in ASCII a column is a character
    for node in _changing(ast.parse(text)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        for new in (*_operators(node), *_others(node)):
            yield Mutant(text, begin, end, new if isinstance(node, ast.stmt) else f"({new})")


def _changing(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield all but assertions, annotations, and the texts of errors, the log and people."""
    log = isinstance(node, ast.Expr) and ast.unparse(node).startswith("logger.")
    if not log and not isinstance(node, ast.JoinedStr | ast.Assert):
        if isinstance(node, ast.expr | ast.stmt):
            yield node
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and name not in {"annotation", "returns", "exc"}:
                    yield from _changing(child)


def _operators(node: ast.expr | ast.stmt) -> Iterator[str]:
    operators = node.ops if isinstance(node, ast.Compare) else [getattr(node, "op", None)]
    for place, operator in enumerate(operators):
        for other in OTHERS.get(type(operator).__name__, []):
            new = copy.deepcopy(node)
            changed = [*operators[:place], getattr(ast, other)(), *operators[place + 1 :]]
            vars(new).update(op=changed[0], ops=changed)
            yield ast.unparse(new)


def _others(node: ast.expr | ast.stmt) -> Iterator[str]:
    match node:
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield ast.unparse(node.operand)
        case ast.Constant(value=bool()):
            yield str(not node.value)
        case ast.Constant(value=int() | float() as number):
            yield from (str(number + 1), str(number - 1))
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"
        case ast.Assign() if not all(isinstance(target, ast.Name) for target in node.targets):
            yield "pass"
        case ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Break() | ast.Continue():
            yield "pass"
        case ast.Expr(value=ast.Call()):
            yield "pass"


UNMEANT = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\])\'|//[^\n]*|^#.*|\b(?:static_)?assert\([^;]*;'
TOKEN = r"(?<= )(?:[<>=!]=|[<>+-]|[+-]=|&&|\|\|)(?=\s)|\+\+|\b(?:true|false)\b"
ASSIGNMENT = r"(?<=  )\**[\w.>\[\]-]+ [-+|&]?= [^;{}]*(?=;\n)"
CALL = r"(?:(?<=\) )|(?<=  ))[\w.:>-]+\((?:[^;{}]|\{\})*\)(?=;\n)"
REMOVED = rf"!(?=[\w(*])|\b(?:continue|break)(?=;)|{ASSIGNMENT}|{CALL}"


def cpp_mutants(text: str) -> Iterator[Mutant]:
    """The tokens are as clang-format leaves them: a binary operator is between spaces."""
    code = re.sub(UNMEANT, lambda found: re.sub(r"[^\n]", "~", found.group()), text, flags=re.M)
    for at in re.finditer(TOKEN, code):
        yield from (Mutant(text, *at.span(), new) for new in OTHERS[at.group()])
    for at in re.finditer(r"(?<![\w.])\d+(?![\w.'])", code):
        yield from (Mutant(text, *at.span(), str(int(at.group()) + n)) for n in (1, -1))
    yield from (Mutant(text, *at.span(), "") for at in re.finditer(REMOVED, code))
    for at in re.finditer(r"(?<=return )[^;{}]+(?=;)", code):
        yield Mutant(text, *at.span(), "{}")


def passes(tree: Path, command: str, seconds: float = 600.0) -> bool:
    """Run a command in a copy. It fails if it takes more seconds."""
    settings = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST": PYTEST}
    settings |= {"GTEST_FAIL_FAST": "1", "NATIVE": "tests/native/_native", "MAKE": MAKE}
    argv = ["prlimit", f"--as={MEMORY}", "bash", "-c", f"exec >/dev/null 2>&1; {command}"]
    running = subprocess.Popen(argv, cwd=tree, env={**os.environ, **settings}, process_group=0)
    try:
        return running.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        return running.wait() == 0


def mutants(name: str, text: str) -> list[Mutant]:
    """Return those of a file that some test should kill."""
    every = list((python_mutants if name.endswith(".py") else cpp_mutants)(text))
    known = {(old, new) for old, new, _ in FILES[name]["equivalent"]}
    if left := known - {mutant.lines() for mutant in every}:
        raise SystemExit(f"no mutant of {name} is {left.pop()}; remove it from mutants.toml")
    return [mutant for mutant in every if mutant.lines() not in known]


def enough(tree: Path, name: str, sample: int | None, seed: int) -> bool:
    """Print what becomes of each of a sample, or of all; return whether enough were killed."""
    text = (tree / name).read_text(encoding="ascii")
    chosen = mutants(name, text)
    if sample is not None and sample < len(chosen):
        chosen = random.Random(seed).sample(chosen, sample)
    built = not name.endswith(".py")
    tests = FILES[name]["tests"]
    if built and not passes(tree, CONFIGURE):
        raise SystemExit(f"cannot try mutants of {name}: without a change it does not build")
    began = time.monotonic()
    if not passes(tree, tests):
        raise SystemExit(f"cannot try mutants of {name}: without a change this fails: {tests}")
    seconds = SECONDS + 5 * (time.monotonic() - began)
    lived = killed = 0
    for mutant in chosen:
        (tree / name).write_text(mutant.changed(), encoding="ascii")
        said = "does not compile"
        if not built or passes(tree, COMPILE):
            survives = passes(tree, tests, seconds)
            said = "survived" if survives else "killed"
            lived, killed = lived + survives, killed + (not survives)
        line = text.count("\n", 0, mutant.begin) + 1
        print(f"{said} {name}:{line}", *mutant.lines(), sep="\n    ", flush=True)
    (tree / name).write_text(text, encoding="ascii")
    print(f"{name}: {killed} of {killed + lived} mutants are killed", flush=True)
    return 100 * killed >= FILES[name]["least"] * (killed + lived)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="by default all")
    parser.add_argument("--sample", type=int, metavar="N", default=40, help="of each file; 40")
    parser.add_argument("--all", dest="sample", action="store_const", const=None)
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="chooses the sample; 1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        ignored = shutil.ignore_patterns(".*", "build", "__pycache__")
        shutil.copytree(ROOT, folder, ignore=ignored, dirs_exist_ok=True)
        files = options.files or FILES
        results = [enough(Path(folder), name, options.sample, options.seed) for name in files]
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
