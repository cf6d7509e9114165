# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The ways into uplink, beside each other, and other traffic through the tunnel of a namespace
while the processors are busy for three quarters of the time (StoArranger, section VII-D). curl's
own seconds: to start the command is not in them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shlex
import statistics
import time
from collections.abc import Iterator

from bench.harness import Figure, figure
from bench.uplink.world import PASSWORD, USER, World, world
from satchel.errors import SatchelError

REQUESTS, QUICK_REQUESTS = 20, 4
"""Of one connection, each for a file that nobody had before."""
SIZE, QUICK_SIZE = 4_000_000, 500_000
ROUNDS, QUICK_ROUNDS = 9, 2
LOAD, PERIOD = 0.75, 0.02
DOWN, UP = 1.05, 1.03
"""Goals, by what it takes directly."""

WAYS = ("redirection", "namespace")


def entries(quick: bool) -> Iterator[Figure]:
    """For each way: seconds of a request, and of a large file, by those directly; and those of a
    tunnelled file under load."""
    requests, size = (QUICK_REQUESTS, QUICK_SIZE) if quick else (REQUESTS, SIZE)
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with world(fresh=0, secure=True) as there:
        rows = [_round(there, number, requests, size) for number in range(rounds)]
        for what in ("request", "large file"):
            direct = statistics.median(row["direct", what] for row in rows)
            for way in WAYS:
                taken = statistics.median(row[way, what] for row in rows)
                yield figure(f"{what} by {way}", taken, "s", against=("curl directly", direct))
        with _busy():
            loaded = [_tunnelled(there, size) for _ in range(rounds)]
        for what, goal in (("down", DOWN), ("up", UP)):
            plain, tunnel = (
                statistics.median(row[way, what] for row in loaded) for way in ("direct", "tunnel")
            )
            yield figure(
                f"other traffic {what} through the tunnel, 75 % load", tunnel, "s",
                against=("curl directly", plain), at_most=goal,
            )  # fmt: skip


def _round(there: World, number: int, requests: int, size: int) -> dict[tuple[str, str], float]:
    found = {}
    for way in ("direct", *WAYS):
        names = [f"{way}-{number}-{each}" for each in range(requests)]
        for name in names:
            (there.files / name).write_bytes(os.urandom(100))
        base = there.through if way == "redirection" else there.direct
        seconds = _curl(there, way, *[f"{base}/{name}" for name in names])
        found[way, "request"] = statistics.median(seconds[1:])
        (there.files / f"{way}-large").write_bytes(os.urandom(size))
        found[way, "large file"] = _curl(there, way, f"{base}/{way}-large")[0]
    return found


def _tunnelled(there: World, size: int) -> dict[tuple[str, str], float]:
    """The program trusts the server's own certificate alone, and so the second try is tunnelled."""
    source = there.folder / "source"
    source.write_bytes(os.urandom(size))
    (there.files / "source").write_bytes(source.read_bytes())
    found = {}
    for way in ("direct", "tunnel"):
        url = f"{there.direct}/source"
        found[way, "down"] = _curl(there, way, url)[-1]
        found[way, "up"] = _curl(there, way, "-T", str(source), f"{there.direct}/sent")[-1]
    return found


def _curl(there: World, way: str, *words: str) -> list[float]:
    """Seconds of each request. Raises SatchelError."""
    curl = ["curl", "-sS", "--fail", "-u", f"{USER}:{PASSWORD}", "-w", "%{stderr}%{time_total}\\n"]
    curl += ["-H", "Expect:", *["-o", "/dev/null"] * len(words), *words]
    nothing = there.folder / "nothing"
    nothing.mkdir(exist_ok=True)
    alone = ["--cacert", str(there.folder / "server.pem"), "--capath", str(nothing)]
    if way in ("direct", "tunnel"):
        curl += alone
    run = [*there.satchel, "run", "--namespace" if way == "tunnel" else f"--{way}", "--"]
    if way == "tunnel":
        refused = ["curl", "-s", "-o", "/dev/null", *alone, there.direct]
        script = f"{shlex.join(refused)}; sleep 1; {shlex.join(curl)}"
        curl = ["sh", "-c", script]
    argv = curl if way in ("direct", "redirection") else [*run, *curl]
    done = there.mobile.run(argv)
    if done.returncode != 0:
        raise SatchelError(f"curl by {way} failed", why=str(done.stderr)[-300:])
    return [float(line) for line in str(done.stderr).split()]


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """Each processor works for three quarters of each period."""
    workers = [
        multiprocessing.Process(target=_work, daemon=True) for _ in range(os.cpu_count() or 1)
    ]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def _work() -> None:
    while True:
        until = time.monotonic() + LOAD * PERIOD
        while time.monotonic() < until:
            pass
        time.sleep((1 - LOAD) * PERIOD)
