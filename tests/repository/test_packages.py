# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Each package says its words in its docstring and shows one public face, its sorted `__all__`."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.repository import tree

EVERY_PACKAGE = pytest.mark.parametrize("name", tree.packages())


def modules_of(name: str) -> set[str]:
    """The modules and packages directly in a package, but for what only runs."""
    inside = [path.parts[1:] for path in tree.with_suffix(".py") if path.parts[0] == name]
    modules = {Path(parts[0]).stem for parts in inside if len(parts) == 1}
    folders = {parts[0] for parts in inside if parts[1:] == ("__init__.py",)}
    return (modules | folders) - {"__init__", "__main__"}


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of every absolute import of a file; name is empty for `import module`."""
    for node in ast.walk(ast.parse(tree.text(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.module or "", alias.name) for alias in node.names)


def public_names(module: ModuleType) -> set[str]:
    names = {name for name in vars(module) if not name.startswith("_")}
    return names - modules_of(module.__name__) - {"annotations", "TYPE_CHECKING", "deferred"}


@EVERY_PACKAGE
def test_its_docstring_defines_its_words(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip()


@EVERY_PACKAGE
def test_all_is_complete(name: str) -> None:
    """That it is sorted is ruff's business."""
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", None)
    assert exported is not None, f"{name}/__init__.py has no __all__"
    assert len(set(exported)) == len(exported)
    assert all(hasattr(module, attribute) for attribute in exported)  # imports what is deferred
    if name == "satchel":
        assert set(exported) == modules_of(name), "its modules are the face of the vocabulary"
    else:
        assert set(exported) - modules_of(name) == public_names(module)


@EVERY_PACKAGE
def test_what_is_imported_when_it_is_used_is_known_to_the_type_checker(name: str) -> None:
    """To mypy a package with a `__getattr__` has every name: misspelt imports had passed."""
    top = ast.parse(tree.text(Path(name, "__init__.py"))).body
    assigned = [ast.unparse(node) for node in top if isinstance(node, ast.Assign)]
    assert not [line for line in assigned if line.startswith("__getattr__")]


def is_public(module: str) -> bool:
    """A package itself, or a module of it that it exports."""
    package, _, inner = module.partition(".")
    return not inner or inner in importlib.import_module(package).__all__


@EVERY_PACKAGE
def test_others_are_used_through_their_public_face_only(name: str) -> None:
    others = set(tree.packages()) - {name, "satchel"}
    inside = [
        f"{path}: {module}"
        for path in tree.with_suffix(".py")
        if path.parts[0] == name
        for module, _ in imports(path)
        if module.split(".")[0] in others and not is_public(module)
    ]
    assert not inside


def test_every_package_has_a_place_in_the_import_contract() -> None:
    contract = tree.text(Path(".importlinter"))
    roots = contract.split("root_packages =")[1].split("include_external")[0].split()
    assert sorted(roots) == list(tree.packages())
    placed = frozenset().union(*tree.floors())
    assert set(tree.packages()) - placed == {"testbed", "bench", "papers"}


def test_the_vocabulary_uses_the_standard_library_only() -> None:
    foreign = [
        f"{path}: {module}"
        for path in tree.with_suffix(".py")
        if path.parts[0] == "satchel"
        for module, _ in imports(path)
        if module.split(".")[0] not in {*sys.stdlib_module_names, "satchel"}
    ]
    assert not foreign


def test_what_is_installed_of_the_testbed_is_what_satchel_try_imports() -> None:
    code = "import sys, testbed.trial; print(*(n for n in sys.modules if n.startswith('testbed.')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    setup = ast.parse(tree.text(Path("setup.py"))).body
    (trial,) = (each for each in setup if ast.unparse(each).startswith("TRIAL = "))
    assert isinstance(trial, ast.Assign)
    loaded = {name.partition(".")[2] for name in done.stdout.split()}
    assert loaded == ast.literal_eval(trial.value) - {"__init__"}


@pytest.mark.parametrize(
    "unit", [path for path in tree.with_suffix(".service") if path.name != "satchel-mount@.service"]
)
def test_a_unit_gives_up_what_it_does_not_need(unit: Path) -> None:
    """`satchel mount` cannot: fusermount3 is set-uid root."""
    lines = set(tree.text(unit).splitlines())
    for kind in ("NoNewPrivileges=yes", "LockPersonality=yes", "SystemCallArchitectures=native"):
        assert kind in lines
    names = {line.partition("=")[0] for line in lines}
    assert names >= {"SystemCallFilter", "RestrictAddressFamilies", "RestrictRealtime"}
