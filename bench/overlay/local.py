# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Access to what is here, through a share's session, against libfuse's own pass-through example.

Both serve the same file to fio with the kernel caching none of it, so that each request reaches
the server, and the file below is in the page cache. `passthrough_ll` is built from
passthrough_ll.c among the examples of Debian's package libfuse3-dev.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from bench.device import run
from bench.harness import Figure, figure
from overlay.coherence import FileId
from overlay.fuse import Session, Window
from overlay.shares import Attributes, Changes, Entry, Handle, Operations
from satchel.errors import UnavailableError

EXAMPLE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
BLOCK = 4096
ROOT, FILE = FileId(1), FileId(2)
WORKLOADS = {
    "random reads": ("randread", "4k"),
    "random writes": ("randwrite", "4k"),
    "sequential reads": ("read", "1m"),
    "sequential writes": ("write", "1m"),
}
WAYS = ("pass-through", "blocks", "whole")

GOALS = {"blocks": 1.3, "whole": 1.1}
"""Time of a request by that of the pass-through's, at most. whole: a native file."""


class OneFile:
    """Operations of a folder with one file, "file": all of it is granted, or each of its blocks."""

    def __init__(self, below: Path, *, whole: bool) -> None:
        self._below = below
        size = below.stat().st_size
        descriptor = os.open(below, os.O_RDWR)
        self._window = Window(descriptor, size)
        os.close(descriptor)
        if whole:
            self._window.grant_whole(write=True)
        else:
            self._window.grant(0, size // BLOCK, writes=Window.UNLIMITED)

    def lookup(self, parent: FileId, name: bytes) -> Entry:
        if name != b"file":
            raise FileNotFoundError(2, "no other file")
        return Entry(name, self.attributes(FILE, None))

    def forget(self, file: FileId, count: int) -> None:
        pass

    def attributes(self, file: FileId, handle: int | None) -> Attributes:
        mode = 0o40755 if file == ROOT else 0o100644
        return Attributes(file, mode, 1, 0, 0, self._window.size, 0, 0, 0, valid=1.0)

    def change(self, file: FileId, changes: Changes, handle: int | None) -> Attributes:
        return self.attributes(file, handle)

    def open(self, file: FileId, flags: int) -> Handle:
        return Handle(1, self._window, direct=True)

    def flush(self, handle: int, lock_owner: int) -> None:
        pass

    def sync(self, handle: int, data_only: bool) -> None:
        pass

    def release(self, handle: int, lock_owner: int) -> None:
        pass


def local_figures(quick: bool) -> Iterator[Figure]:
    """What the session itself costs; a node's own work comes before that, when it grants."""
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as folder:
        program = build(Path(folder))
        rounds, seconds = (3, 0.5) if quick else (5, 3.0)
        found = ratios(program, Path(folder), rounds=rounds, seconds=seconds)
    for workload, by_way in found.items():
        for way, ratio in by_way.items():
            what = f"overlay, session: {workload}, {way}, by libfuse's pass-through example"
            yield figure(what, ratio, "1", at_most=GOALS[way])


def build(to: Path, example: Path = EXAMPLE) -> Path:
    """The program `passthrough_ll` in the folder `to`, from its source."""
    program = to / "passthrough_ll"
    flags = run("pkg-config", "--cflags", "--libs", "fuse3").split()
    run("cc", "-O2", "-D_FILE_OFFSET_BITS=64", "-o", str(program), str(example), *flags)
    return program


def ratios(
    program: Path, folder: Path, *, rounds: int = 5, seconds: float = 3.0, size: int = 256 << 20
) -> dict[str, dict[str, float]]:
    """Per workload: the median time per request of "blocks" and of "whole" as a multiple of the
    pass-through's. The three are measured in turn, `rounds` times. Needs fio and /dev/fuse."""
    file = folder / "below" / "file"
    file.parent.mkdir(exist_ok=True)
    if not file.exists() or file.stat().st_size != size:
        with file.open("wb") as out:
            for _ in range(size >> 20):
                out.write(os.urandom(1 << 20))
    found: dict[str, dict[str, float]] = {}
    with contextlib.ExitStack() as stack:
        places = {way: stack.enter_context(_served(way, program, folder)) for way in WAYS}
        for workload, (kind, block) in WORKLOADS.items():
            times: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way, place in places.items():
                    times[way].append(_microseconds(place / "file", kind, block, seconds, size))
            medians = {way: statistics.median(taken) for way, taken in times.items()}
            found[workload] = {
                way: medians[way] / medians["pass-through"] for way in ("blocks", "whole")
            }
    return found


@contextlib.contextmanager
def _served(way: str, program: Path, folder: Path) -> Iterator[Path]:
    """Where the file is mounted, by a process of its own."""
    place = folder / way
    place.mkdir(exist_ok=True)
    below = folder / "below"
    argv = [str(program), "-f", "-o", f"source={below},cache=never", str(place)]
    if way != "pass-through":
        argv = [sys.executable, "-m", "bench.overlay.local", way, str(below / "file"), str(place)]
    serving = subprocess.Popen(argv)
    try:
        while not place.is_mount():
            if serving.poll() is not None:
                raise UnavailableError(f"the session of {place} ended", why=str(argv))
            time.sleep(0.01)
        yield place
    finally:
        subprocess.run(["fusermount3", "-u", str(place)], check=False)
        serving.wait()


def _microseconds(file: Path, kind: str, block: str, seconds: float, size: int) -> float:
    """Per request."""
    argv = [
        "fio", "--name=x", f"--filename={file}", f"--rw={kind}", f"--bs={block}",
        "--ioengine=psync", "--time_based", f"--runtime={seconds}", f"--size={size}",
        "--overwrite=1", "--allow_file_create=0", "--output-format=json",
    ]  # fmt: skip
    (job,) = json.loads(run(*argv))["jobs"]
    return 1e6 / float(job["write" if "write" in kind else "read"]["iops"])


if __name__ == "__main__":
    WAY, BELOW, PLACE = sys.argv[1:]
    # Only what is asked of one file.
    TREE = cast(Operations, OneFile(Path(BELOW), whole=WAY == "whole"))
    with Session(TREE, Path(PLACE)) as SESSION:
        SESSION.run()
