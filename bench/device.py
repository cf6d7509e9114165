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
def device(path: Path, nbdkit: Sequence[str], options: Sequence[str] = ()) -> Iterator[None]:
    """The disk of `nbdkit ARGUMENTS...` as the file at `path`, which is made. options: of nbdfuse.
    Raises UnavailableError where it does not come up."""
    path.touch()
    argv = ["nbdfuse", *options, str(path), "[", "nbdkit", "--exit-with-parent", *nbdkit, "]"]
    serving = subprocess.Popen(argv)
    with contextlib.ExitStack() as stack:
        stack.callback(serving.wait)
        stack.callback(run, "fusermount3", "-u", str(path))
        await_up("nbdfuse", serving, lambda: path.stat().st_size > 0)
        yield


def run(*argv: str) -> str:
    """What a command says. Raises subprocess.CalledProcessError."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
