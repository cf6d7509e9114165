# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files at the edge: `./scripts/bench mefs.edge`, papers/mefs/README.md and docs/shares-edge.md.

GET and PUT of 64 KiB through a node at a surrogate, by home alone and by the service's own disk;
MEFS's Figure 6 for the file sessions of a guest that moves, Figure 7a and Table II (bytes to home
of a write), Figure 7b (seconds of a restore).
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import Figure, figure
from papers.mefs.edge_moves import LOADS, edge_of, move_figures
from papers.mefs.edge_world import EDGE_RATE, EDGE_TRIP, HOME_TRIP, RATE, Guest, World, world
from shares.node import open_file

SIZE = 64 << 10
ROUNDS, FEW = 40, 8
OF_HOME, OF_DISK = 0.6, 1.5
SIZES = (10, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 64 << 10)
LOGGED = (1, 50, 100, 200, 1000)
SETTLE_SECONDS = 30.0


def edge_figures(quick: bool) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="sb") as name:
        folder = Path(name)
        yield from latency_figures(folder, FEW if quick else ROUNDS)
        yield from move_figures(folder, LOADS[::3] if quick else LOADS, 1 if quick else 5)
        yield from overhead_figures(folder, SIZES[::5] if quick else SIZES)
        yield from restore_figures(folder, LOGGED[:2] if quick else LOGGED)


def latency_figures(folder: Path, rounds: int) -> Iterator[Figure]:
    """Milliseconds of an operation, as its client waits: the link to who executes it, and that."""
    data = [os.urandom(SIZE) for _ in range(4)]
    with world(folder / "l") as made:
        near, home = made.at_edge("near"), made.at_home()
        try:
            operation = made.lead(near, 1)
            edge = _times(near, made, data, rounds, operation, EDGE_TRIP, home)
            made.keeper.yielded(made.keeper._leading)  # type: ignore[arg-type]
            alone = _times(home, made, data, rounds, made.logged + 1, HOME_TRIP, None)
        finally:
            near.close()
            home.close()
    disk = _on_disk(folder / "disk", data, rounds)
    for kind, at_edge in edge.items():
        about = f"shares, edge: {kind} of 64 KiB"
        yield figure(f"{about}, home alone", alone[kind], "ms")
        yield figure(
            f"{about}, at a surrogate",
            at_edge,
            "ms",
            against=("home alone", alone[kind]),
            at_most=OF_HOME,
        )
        yield figure(
            f"{about}, at a surrogate, by its own disk",
            at_edge,
            "ms",
            against=("own disk", disk[kind]),
            at_most=OF_DISK,
        )


def _times(
    guest: Guest,
    made: World,
    data: list[bytes],
    rounds: int,
    operation: int,
    trip: float,
    follower: Guest | None,
) -> dict[str, float]:
    """follower: home's replica, which executes the same behind."""
    taken: dict[str, list[float]] = {"PUT": [], "GET": []}
    threads = []
    for turn in range(rounds + 2):
        for kind, found in taken.items():
            made.log(operation)
            act = _operation(kind, data[turn % len(data)], operation)
            found.append(_client(lambda act=act: act(guest), trip))  # type: ignore[misc]
            if follower:
                threads.append(threading.Thread(target=act, args=(follower,)))
                threads[-1].start()
                threads[-1].join()
            operation += 1
    return {kind: statistics.median(times[2:]) * 1e3 for kind, times in taken.items()}


def _operation(kind: str, data: bytes, operation: int) -> Callable[[Guest], object]:
    if kind == "PUT":
        return lambda guest: guest.put("letter", data, operation)
    return lambda guest: guest.get("letter", SIZE, operation)


def _client(act: Callable[[], object], trip: float) -> float:
    """Seconds: the body crosses the link once, the rest is a round trip."""
    began = time.perf_counter()
    time.sleep(trip + SIZE / (RATE if trip == HOME_TRIP else EDGE_RATE))
    act()
    return time.perf_counter() - began


def _on_disk(folder: Path, data: list[bytes], rounds: int) -> dict[str, float]:
    folder.mkdir()
    path = folder / "letter"
    put = [
        _client(lambda turn=turn: path.write_bytes(data[turn % len(data)]), EDGE_TRIP)  # type: ignore[misc]
        for turn in range(rounds)
    ]
    get = [_client(path.read_bytes, EDGE_TRIP) for _ in range(rounds)]
    return {"PUT": statistics.median(put) * 1e3, "GET": statistics.median(get) * 1e3}


def overhead_figures(folder: Path, sizes: tuple[int, ...]) -> Iterator[Figure]:
    """Figure 7a and Table II: what goes between a surrogate and home of one write, both ways and
    all told, where a file is written again."""
    for size in sizes:
        with world(folder / f"o{size}") as made:
            near = made.at_edge("near")
            try:
                operation = made.lead(near, 1)
                made.log(operation + 100)
                near.put("x", os.urandom(size), operation)
                time.sleep(1.0)
                before = sum(relay.carried for relay in made.relays["near"])
                for turn in range(1, 21):
                    near.put("x", os.urandom(size), operation + turn)
                    node = edge_of(near)._node
                    assert node is not None
                    node.settler.drain(SETTLE_SECONDS)
                carried = sum(relay.carried for relay in made.relays["near"]) - before
            finally:
                near.close()
        yield figure(f"shares, edge: one PUT of {size} B, to home", carried / 20, "B")


def restore_figures(folder: Path, counts: tuple[int, ...]) -> Iterator[Figure]:
    """Figure 7b: seconds in which home takes the blocks back of a node that is lost, by writes in
    its log; 100 B each, in a file of 1 MiB that another node has open too."""
    for count in counts:
        with world(folder / f"r{count}") as made, contextlib.ExitStack() as stack:
            (made.root / "x").write_bytes(bytes(1 << 20))
            lost, other = (made.member(made.folder / name) for name in ("c1", "c2"))
            stack.callback(other.close)
            share = made.shares.get("papers")
            with open_file(other.node, "x", "rb") as reads:
                writes = open_file(lost.node, "x", "r+b")
                reads.read()
                for number in range(count):
                    writes.seek(number % 256 * 4096 + number // 256 * 100)
                    writes.write(os.urandom(100))
                    writes.flush()
                session = next(s for s in share.sessions.values() if s.token == lost.token)
                records = share.log.lag().records
                began = time.perf_counter()
                share.lost(session, "the bench ends it")
                seconds = time.perf_counter() - began
        about = f"shares, edge: restore after {count} writes"
        yield figure(about, seconds * 1e3, "ms")
        yield figure(f"{about}: in the log", records, "records")
