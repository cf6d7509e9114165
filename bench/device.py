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


@contextlib.contextmanager
def slow_device(
    path: Path, image: Path, *, seek: float, rate: float, readonly: bool = False
) -> Iterator[None]:
    """An image as the file at `path`, on a disk whose head moves (slow_device.py). seek: seconds;
    rate: bytes a second. Raises as `device`."""
    plugin = Path(__file__).with_name("slow_device.py")
    settings = ["python", str(plugin), f"file={image}", f"seek={seek}", f"rate={rate}"]
    options = ["-r"] if readonly else []
    with device(path, [*options, *settings], options):
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
