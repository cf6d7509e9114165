# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Writes and checks the provenance of a release: an in-toto statement with a SLSA predicate
(both version 1), `satchel.intoto.json` beside the packages. It needs Python alone.

    scripts/provenance.py make FOLDER
    scripts/provenance.py check FOLDER [--source TREE]

`make` names the packages with their digests, the commit, and the files that choose what goes into
them. `check` refuses a file that differs, a package that the statement does not name, and with a
checked-out TREE another commit or another of those files. The signature of SHA256SUMS covers the
statement: check that first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NAME = "satchel.intoto.json"
STATEMENT, PROVENANCE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:satchel:scripts:package:1"
BUILDER = "urn:satchel:builder:scripts:package"

PACKAGES = ("*.whl", "*.deb", "satchel.cdx.json")

MATERIALS = (
    "requirements.lock",
    "requirements-dev.lock",
    "debian/vendored.txt",
    "debian/control",
    "scripts/packages.txt",
    "scripts/package-packages.txt",
    "scripts/package",
)
"""Files of the tree that choose what goes into a release, and how."""


class NotAsStated(Exception):
    """The folder, or the tree, differs from the statement."""


def statement(folder: Path, tree: Path) -> dict[str, Any]:
    """Return the statement about the packages of a folder that were made of that tree."""
    commit, changed = _commit(tree)
    source = [{"name": "source", "digest": {"gitCommit": commit}}] if commit else []
    release = platform.freedesktop_os_release()
    return {
        "_type": STATEMENT,
        "subject": [_described(path, path.name) for path in _packages(folder)],
        "predicateType": PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "changedFiles": changed},
                "internalParameters": {
                    "distribution": f"{release['ID']} {release.get('VERSION_ID', '')}".strip(),
                    "machine": platform.machine(),
                    "python": platform.python_version(),
                },
                "resolvedDependencies": [
                    *source,
                    *(_described(tree / name, name) for name in MATERIALS),
                ],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }


def check(folder: Path, tree: Path | None = None) -> str:
    """Return a summary of the statement in one line. Raise NotAsStated, or OSError."""
    try:
        said = json.loads((folder / NAME).read_bytes())
        if (said["_type"], said["predicateType"]) != (STATEMENT, PROVENANCE):
            raise NotAsStated(f"{NAME} is of another kind")
        definition = said["predicate"]["buildDefinition"]
        commit = definition["externalParameters"]["commit"]
        changed = definition["externalParameters"]["changedFiles"]
        made = {each["name"]: each["digest"]["sha256"] for each in said["subject"]}
        materials = {
            each["name"]: each["digest"]["sha256"]
            for each in definition["resolvedDependencies"]
            if "sha256" in each.get("digest", {})
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotAsStated(f"{NAME} is damaged: {error!r}") from error
    _compare(made, {path.name: path for path in _packages(folder)})
    if tree:
        if _commit(tree) != (commit, []):
            raise NotAsStated(f"the packages are of {commit or 'no commit'}, which {tree} is not")
        _compare(materials, {name: tree / name for name in MATERIALS})
    altered = f", with {len(changed)} changed files" if changed else ""
    return f"{len(made)} files of commit {commit or 'unknown'}{altered}"


def _compare(stated: dict[str, str], found: dict[str, Path]) -> None:
    for name in sorted(stated.keys() | found.keys()):
        if name not in found or name not in stated:
            where = "the folder" if name in stated else f"{NAME}"
            raise NotAsStated(f"{name} is not in {where}")
        if _digest(found[name]) != stated[name]:
            raise NotAsStated(f"{name} differs from {NAME}")


def _packages(folder: Path) -> Iterator[Path]:
    for pattern in PACKAGES:
        yield from sorted(folder.glob(pattern))


def _described(path: Path, name: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": _digest(path)}}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _commit(tree: Path) -> tuple[str, list[str]]:
    """Return the commit of a tree and the files that differ from it; empty without git."""
    try:
        commit = _git(tree, "rev-parse", "HEAD").strip()
        changed = _git(tree, "status", "--porcelain", "--untracked-files=no").splitlines()
    except (OSError, subprocess.CalledProcessError):
        return "", []
    return commit, [line[3:] for line in changed]


def _git(tree: Path, *words: str) -> str:
    argv = ["git", "-C", str(tree), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["make", "check"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path, help="the tree that the release names")
    chosen = parser.parse_args()
    if chosen.what == "make":
        text = json.dumps(statement(chosen.folder, chosen.source or ROOT), indent=1)
        (chosen.folder / NAME).write_text(text + "\n")
        return 0
    try:
        print(check(chosen.folder, chosen.source))
    except (NotAsStated, OSError) as error:
        print(f"provenance: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
