# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Rules that every source file keeps."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.repository import tree

SOURCES = (".py", ".pyi", ".cc", ".c", ".h", ".sh", ".cmake", ".toml")
SOURCE_NAMES = (
    "CMakeLists.txt",
    "Vagrantfile",
    "packages.txt",
    "test-packages.txt",
    ".importlinter",
    ".clang-format",
)
NO_HEADER = {Path("pyproject.toml")}
FILE_LINES = 600
LONG_FILES: dict[str, str] = {
    "shares/home/storage/tree.py": "one lock guards names, open files and what others change",
    "shares/protocol/home_machine.py": "one state machine: each transition needs the same records",
}
"""Files of more than FILE_LINES lines, each with the reason why it is one file."""
FUNCTION_LINES = 70
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "base"}
MARKERS = re.compile(
    "|".join(rf"\b{a}{b}\b" for a, b in (("TO", "DO"), ("FIX", "ME"), ("XX", "X")))
)
MACHINE_PATHS = re.compile(r"(?<![\w.~$}/])/(?:work|root|home/(?!USER\b)\w+|Users)/")
REGISTRIES = re.compile(
    r"\b(?:py(?:pi|thonhosted)\.org|npmjs\.(?:com|org)|crates\.io|rubygems\.org"
    r"|(?:deb|ftp|security|snapshot|archive|mirrors?)\.(?:debian|ubuntu)\.(?:org|com))\b"
)
URL_HOST = re.compile(r"\bhttps?://([\w.-]+)")
OWN_HOSTS = re.compile(
    r"(?:127\.0\.0\.1|localhost|satchel|[\w-]+|(?:.*\.)?(?:example(?:\.\w+)?|invalid|test))"
)

NAMESPACES = (
    "http://libvirt.org/schemas/domain/qemu/1.0",
    "http://owncloud.org/ns",
    "http://s3.amazonaws.com/doc/2006-03-01/",
    "http://www.w3.org/2000/svg",
    "https://in-toto.io/Statement/v1",
    "https://slsa.dev/provenance/v1",
    "https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
)
"""Names of XML's namespaces and of formats look like addresses, and nobody asks for them."""


def sources() -> list[Path]:
    """Source files, scripts without a suffix among them."""
    scripts = [path for path in tree.files() if tree.text(path).startswith("#!")]
    named = [p for p in tree.files() if p.suffix in SOURCES or p.name in SOURCE_NAMES]
    return sorted({*scripts, *named})


def python_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, first line and number of lines of every function."""
    for node in ast.walk(ast.parse(tree.text(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def matches(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path}:{number}: {found.group()}"
        for path in paths
        for number, line in enumerate(tree.text(path).splitlines(), 1)
        for found in pattern.finditer(line)
    ]


def test_every_source_file_starts_with_the_two_line_licence_header() -> None:
    lacking = []
    for path in sources():
        if path in NO_HEADER or not tree.text(path).strip():
            continue
        head = "\n".join(tree.text(path).splitlines()[:4])
        if (
            "SPDX-FileCopyrightText: " not in head
            or "SPDX-License-Identifier: Apache-2.0" not in head
        ):
            lacking.append(str(path))
    assert not lacking


def test_files_are_at_most_600_lines_or_have_a_reason() -> None:
    long = {str(path) for path in sources() if len(tree.text(path).splitlines()) > FILE_LINES}
    assert long - LONG_FILES.keys() == set(), "split them, or give a reason in LONG_FILES"
    assert LONG_FILES.keys() - long == set(), "they are short enough, and need no reason"


def test_python_functions_are_at_most_70_lines() -> None:
    long = [
        f"{path}:{first}: {name} has {lines} lines"
        for path in tree.with_suffix(".py")
        for name, first, lines in python_functions(path)
        if lines > FUNCTION_LINES
    ]
    assert not long


def test_no_product_of_a_build_is_committed() -> None:
    programs = [path for path in tree.files() if (tree.ROOT / path).read_bytes()[:4] == b"\x7fELF"]
    assert not programs


def test_no_module_has_a_vague_name() -> None:
    assert not [str(path) for path in sources() if path.stem in VAGUE_NAMES]


def test_nothing_is_marked_to_be_done_later() -> None:
    assert not matches(MARKERS, list(tree.files()))


def test_no_path_of_one_machine_is_written_down() -> None:
    assert not matches(MACHINE_PATHS, list(tree.files()))


def test_no_package_registry_is_named() -> None:
    assert not matches(REGISTRIES, list(tree.files()))


def test_sources_talk_to_no_host_of_the_internet() -> None:
    others = [path for path in tree.files() if path.suffix != ".md" and path.name != "LICENSE"]
    foreign = []
    for path in others:
        text = tree.text(path)
        for name in NAMESPACES:
            text = text.replace(name, "")
        hosts = URL_HOST.findall(text)
        foreign += [f"{path}: {host}" for host in hosts if not OWN_HOSTS.fullmatch(host)]
    assert not foreign


def test_no_source_has_a_client_that_is_no_longer_maintained() -> None:
    """httpx2 continues httpx; both may be in the environment of a working tree."""
    left = re.compile(r"^ *(?:import|from) (?:httpx|httpcore)\b", re.MULTILINE)
    assert [str(path) for path in tree.with_suffix(".py") if left.search(tree.text(path))] == []


def test_nothing_waits_by_select() -> None:
    """It takes no descriptor beyond 1023, which a process with a thousand streams has."""
    waits = re.compile(r"\bselect\.select\(")
    beside = {"bench", "papers", "recipes", "tests"}
    ours = [path for path in sources() if not beside & set(path.parts)]
    assert matches(waits, ours) == []
