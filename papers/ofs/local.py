# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Access to what is here, through a mounted share, against libfuse's own pass-through example.

The same file system is below all of them, and the kernel caches nothing of the mounts, so that each
request reaches who serves it. `passthrough_ll` is built from passthrough_ll.c among the examples of
Debian's package libfuse3-dev.

    native  a file that one mount alone has open
    owned   a file that another mount has open too; the one that is measured owns its blocks
    valid   the same, but both have copies; it is only read

The first two are also measured without the write log, because with it home gets what is written
while the measurement goes on, on the same processors.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import Figure, device, figure
from homeserver.shares import ShareRegistry, Shares
from shares.home import ShareRecord
from shares.mount import MountedShare
from testbed import await_up
from wire import Caller

EXAMPLE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
WORKLOADS = {
    "random reads": ("randread", "4k"),
    "random writes": ("randwrite", "4k"),
    "sequential reads": ("read", "1m"),
    "sequential writes": ("write", "1m"),
}
SIZE = 16 << 20
LEASE = 10.0
UNMOUNT_SECONDS = 60.0
"""Until a mount is ended: another program's mount namespace may have a copy of it, and keeps it."""

MOUNTS = ("measured", "other")

GOALS = {"native": 1.1, "owned": 1.3, "valid": 1.3, "native, no log": 1.1, "owned, no log": 1.3}
"""Time of a request by that of the pass-through's, at most."""


def local_figures(quick: bool) -> Iterator[Figure]:
    """What a mounted share costs beyond any FUSE file system."""
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as folder:
        program = build(Path(folder))
        rounds, seconds = (3, 0.5) if quick else (5, 2.0)
        found = ratios(program, Path(folder), rounds=rounds, seconds=seconds)
    for workload, by_way in found.items():
        for way, ratio in by_way.items():
            what = f"shares, mount: {workload}, {way}, by libfuse's pass-through example"
            yield figure(what, ratio, "1", at_most=GOALS[way])


def build(to: Path, example: Path = EXAMPLE) -> Path:
    """The program `passthrough_ll` in the folder `to`, from its source."""
    program = to / "passthrough_ll"
    flags = device.run("pkg-config", "--cflags", "--libs", "fuse3").split()
    device.run("cc", "-O2", "-D_FILE_OFFSET_BITS=64", "-o", str(program), str(example), *flags)
    return program


def ratios(
    program: Path, folder: Path, *, rounds: int = 5, seconds: float = 2.0
) -> dict[str, dict[str, float]]:
    """Per workload: the median time per request of each way as a multiple of the pass-through's.
    All are measured in turn, `rounds` times. Needs fio and /dev/fuse."""
    found: dict[str, dict[str, float]] = {}
    with contextlib.ExitStack() as stack:
        files = {"pass-through": stack.enter_context(_passthrough(program, folder))}
        files |= stack.enter_context(_shares(folder))
        for workload, (kind, block) in WORKLOADS.items():
            times: dict[str, list[float]] = {
                way: [] for way in files if way != "valid" or "read" in kind
            }
            for _ in range(rounds):
                for way, taken in times.items():
                    taken.append(_microseconds(files[way], kind, block, seconds))
            medians = {way: statistics.median(taken) for way, taken in times.items()}
            through = medians.pop("pass-through")
            found[workload] = {way: median / through for way, median in medians.items()}
    return found


@contextlib.contextmanager
def _passthrough(program: Path, folder: Path) -> Iterator[Path]:
    """A file as the example serves it."""
    below = folder / "below"
    below.mkdir()
    (below / "file").write_bytes(os.urandom(SIZE))
    place = folder / "through"
    argv = [str(program), "-f", "-o", f"source={below},cache=never", str(place)]
    with served(argv, place):
        yield place / "file"


@contextlib.contextmanager
def _shares(folder: Path) -> Iterator[dict[str, Path]]:
    """Files by how the mount that is measured has them. Home is in this process."""
    socket, shelf = folder / "socket", ShareRegistry(folder / "shelf")
    with contextlib.ExitStack() as stack:
        shares = Shares(shelf, socket, LEASE)
        stack.callback(shares.close)
        files: dict[str, Path] = {}
        for log, suffix in (("async", ""), ("off", ", no log")):
            root = folder / f"root-{log}"
            root.mkdir()
            shares.add(ShareRecord(log, str(root), log=log))
            places = []
            for which in MOUNTS:
                place = folder / f"{which}-{log}"
                argv = [sys.executable, "-m", __name__, str(socket), log, str(place)]
                stack.enter_context(served([*argv, str(folder / f"cache-{which}-{log}")], place))
                places.append(place)
            measured, other = places
            files |= {
                f"native{suffix}": _file(stack, measured / "native"),
                f"owned{suffix}": _file(stack, measured / "owned", other),
            }
            if not suffix:
                files["valid"] = _file(stack, measured / "valid", other)
                (other / "valid").read_bytes()
        yield files


def _file(stack: contextlib.ExitStack, path: Path, other: Path | None = None) -> Path:
    """It is written once it is open where it is to be, and stays open."""
    for place in filter(None, (path.parent, other)):
        descriptor = os.open(place / path.name, os.O_RDWR | os.O_CREAT)
        stack.callback(os.close, descriptor)
    with path.open("r+b", buffering=0) as file:
        for _ in range(SIZE >> 20):
            file.write(os.urandom(1 << 20))
    return path


@contextlib.contextmanager
def served(argv: list[str], place: Path) -> Iterator[None]:
    """While something is mounted there by a process of its own."""
    place.mkdir(exist_ok=True)
    serving = subprocess.Popen(argv)
    try:
        await_up(" ".join(argv), serving, place.is_mount)
        yield
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(place)], check=False)
        try:
            serving.wait(UNMOUNT_SECONDS)
        except subprocess.TimeoutExpired:
            serving.terminate()
            serving.wait()


def _microseconds(file: Path, kind: str, block: str, seconds: float) -> float:
    """Per request."""
    argv = [
        "fio", "--name=x", f"--filename={file}", f"--rw={kind}", f"--bs={block}",
        "--ioengine=psync", "--time_based", f"--runtime={seconds}", f"--size={SIZE}",
        "--overwrite=1", "--allow_file_create=0", "--output-format=json",
    ]  # fmt: skip
    (job,) = json.loads(device.run(*argv))["jobs"]
    return 1e6 / float(job["write" if "write" in kind else "read"]["iops"])


if __name__ == "__main__":
    SOCKET, SHARE, PLACE, CACHE, *STATUS = sys.argv[1:]
    CALL = partial(Caller, Path(SOCKET))
    MOUNT = MountedShare(CALL, SHARE, Path(PLACE).name, Path(PLACE), Path(CACHE), ahead=True)
    MOUNT.run()
    for FILE in STATUS:
        Path(FILE).write_text(json.dumps(MOUNT.status()))
