# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The repository as its rules see it: files, packages and floors."""

import configparser
import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def files() -> tuple[Path, ...]:
    """Every file that is or could be committed, relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (Path(name) for name in sorted(set(listing.split("\0"))) if name)
    return tuple(path for path in paths if (ROOT / path).is_file())


def with_suffix(*suffixes: str) -> list[Path]:
    return [path for path in files() if path.suffix in suffixes]


@functools.cache
def text(path: Path) -> str:
    """The content of a file; empty for one that is not text."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@functools.cache
def floors() -> tuple[frozenset[str], ...]:
    """The packages of each floor, the highest first, as the import contract has them."""
    contract = configparser.ConfigParser()
    contract.read_string(text(Path(".importlinter")))
    layers = contract["importlinter:contract:floors"]["layers"].split("\n")
    return tuple(frozenset(name.strip() for name in line.split("|")) for line in layers if line)


@functools.cache
def packages() -> tuple[str, ...]:
    """Every top-level package but the tests."""
    tops = {path.parts[0] for path in files() if path.parts[1:] == ("__init__.py",)}
    return tuple(sorted(tops - {"tests"}))


def below(package: str) -> frozenset[str]:
    """The packages that `package` may use beside itself; all of them for what stands beside."""
    for number, floor in enumerate(floors()):
        if package in floor:
            return frozenset().union(*floors()[number + 1 :])
    return frozenset(packages())
