# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Page faults of a machine's memory: nbdfuse, as we have it, beside userfaultfd.

Both get a page of the same NBD server, our own, whose blocks are present. Random pages are touched
for the first time, by 1, 4 and 16 threads. faults.cc, compiled here, does it. Needs root, as
userfaultfd does.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench.device import run
from bench.harness import Figure, figure
from bench.host import this_host
from bench.store.inputs import make_inputs
from chunkstore import Store
from hypervisor import RamMount
from overlay import serve_stored
from satchel.ids import BLOCK_SIZE

SOURCE = Path(__file__).with_suffix(".cc")
VOLUME = "volume"
OFFSET = 32 << 20
"""A disk is filled from there."""

SIZE = 512 << 20
QUICK_SIZE = 32 << 20
THREADS = (1, 4, 16)
TOUCHES = 20_000
QUICK_TOUCHES = 2_000
ROUNDS = 3
AT_LEAST = 1.2
"""How much sooner the other way has to be for us to take it."""


def fault_figures(quick: bool) -> Iterator[Figure]:
    """Of each number of threads the median of a touch, and the rate."""
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        folder = Path(name)
        program = folder / "faults"
        run("c++", "-O2", "-std=c++17", "-pthread", "-o", str(program), str(SOURCE))
        with _served(folder, quick=quick) as (socket, uri):
            taken: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
            for _ in range(1 if quick else ROUNDS):
                for threads in THREADS:
                    for way, one in _both(program, folder, socket, uri, threads, quick=quick):
                        taken[threads, way].append(one)
    bound = "memory", BLOCK_SIZE / this_host(quick=quick).memory
    for threads in THREADS:
        ours, other = (
            [statistics.median(column) for column in zip(*taken[threads, way], strict=True)]
            for way in ("nbdfuse", "userfaultfd")
        )
        label, against = f"page fault, {threads} threads", "userfaultfd"
        limit = AT_LEAST if threads == 1 else None
        yield figure(label, ours[0], "us", against=(against, other[0]), at_most=limit, bound=bound)
        yield figure(f"{label}: rate", ours[1], "touches/s", against=(against, other[1]))


def _both(
    program: Path, folder: Path, socket: Path, uri: str, threads: int, *, quick: bool
) -> Iterator[tuple[str, tuple[float, float]]]:
    """The two ways, and of each the median in microseconds and touches a second. Raises
    RuntimeError if they do not see the same bytes."""
    size, touches = (QUICK_SIZE, QUICK_TOUCHES) if quick else (SIZE, TOUCHES)
    what = [str(OFFSET), str(size), str(threads), str(touches)]
    mount = RamMount.mount(uri, folder / "mounted")
    try:
        ours = run(str(program), "file", str(mount.file), *what).split()
    finally:
        mount.unmount()
    other = run(str(program), "userfaultfd", str(socket), VOLUME, *what).split()
    if ours[2] != other[2]:
        raise RuntimeError(f"nbdfuse's pages and userfaultfd's differ: {ours[2]}, {other[2]}")
    yield "nbdfuse", (float(ours[0]), float(ours[1]))
    yield "userfaultfd", (float(other[0]), float(other[1]))


@contextlib.contextmanager
def _served(folder: Path, *, quick: bool) -> Iterator[tuple[Path, str]]:
    """The socket of a server of a disk that was read before, and its address."""
    image = make_inputs(quick)["second"]
    socket = folder / "nbd.sock"
    Store.create(folder / "store").close()
    with Store.open(folder / "store", level=0) as store:
        root = store.import_file(image.path)
        with serve_stored(store, VOLUME, root, socket) as server:
            yield socket, server.uri(VOLUME)
