# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Modelled devices: what an nbdkit serves as a file that can be mounted."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed import await_up


@contextlib.contextmanager
def device(path: Path, nbdkit: Sequence[str]) -> Iterator[None]:
    """Show the disk of `nbdkit ARGUMENTS...` as a new file at `path`.

    Raises UnavailableError if nbdfuse does not start.
    """
    path.touch()
    argv = ["nbdfuse", str(path), "[", "nbdkit", "--exit-with-parent", *nbdkit, "]"]
    serving = subprocess.Popen(argv)
    with contextlib.ExitStack() as stack:
        stack.callback(serving.wait)
        stack.callback(run, "fusermount3", "-u", str(path))
        await_up("nbdfuse", serving, lambda: path.stat().st_size > 0)
        yield


@contextlib.contextmanager
def mounted(disk: Path, root: Path, options: str = "loop") -> Iterator[None]:
    """The ext4 in a file, mounted at `root`, which is made. Needs root."""
    root.mkdir(exist_ok=True)
    run("mount", "-t", "ext4", "-o", options, str(disk), str(root))
    try:
        yield
    finally:
        run("umount", str(root))


def run(*argv: str) -> str:
    """What a command says. Raises subprocess.CalledProcessError."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
