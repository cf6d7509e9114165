# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""libfuse's own suite of file-system calls, test_syscalls, built from Debian's source of fuse3.

It is kept where built images are, so that the network is asked once. apt checks the signature, with
lists of its own: what this machine knows of packages stays as it is.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from testbed.built import cache_folder

SECONDS = 300
_SOURCES = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)"


def libfuse_suite() -> Path:
    """The program, built now if it is not there."""
    folder = cache_folder() / "libfuse-suite"
    program = folder / "test_syscalls"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (source,) = _fetch(folder).glob("**/test/test_syscalls.c")
        (folder / "fuse_config.h").touch()
        built = folder / "test_syscalls.new"
        options = ["-O1", "-w", "-D_GNU_SOURCE", "-DHAVE_COPY_FILE_RANGE", f"-I{folder}"]
        _run(folder, "gcc", *options, "-o", str(built), str(source))
        built.rename(program)
    return program


def _fetch(folder: Path) -> Path:
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    listed = _run(folder, "apt-get", "indextargets", "--format", _SOURCES, "Created-By: Packages")
    lines = set()
    for line in listed.splitlines():
        uri, release, component, signed = line.split("|")
        option = f"[signed-by={signed}] " if signed.startswith("/") else ""
        lines.add(f"deb-src {option}{uri} {release} {component}\n")
    (folder / "sources.list").write_text("".join(sorted(lines)))
    options = [
        f"Dir::Etc::SourceList={folder / 'sources.list'}",
        "Dir::Etc::SourceParts=/dev/null",
        f"Dir::State::Lists={folder / 'lists'}",
        "APT::Sandbox::User=root",
    ]
    apt = ["apt-get", "-q", *(word for option in options for word in ("-o", option))]
    _run(folder, *apt, "update")
    _run(folder, *apt, "source", "--download-only", "fuse3")
    (archive,) = folder.glob("fuse3_*.orig.tar.*z")
    source = folder / "source"
    source.mkdir(exist_ok=True)
    _run(folder, "tar", "--extract", "--file", str(archive), "--directory", str(source))
    return source


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
