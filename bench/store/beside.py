# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""An import while the store is settled in the background, against the same import alone."""

from __future__ import annotations

import contextlib
import statistics
import threading
from collections.abc import Iterator

from bench.harness import Figure, figure
from bench.host import this_host
from bench.store.checkpoint import store_with, timed
from bench.store.inputs import make_inputs, warm
from chunkstore import Store
from satchel.errors import SatchelError

GOAL = 1.1
"""What one import differs from the next by."""

ROUNDS = 5


class _Enough(Exception):
    """Raised out of the progress of a settling that has been measured beside."""


def settling_figures(quick: bool) -> Iterator[Figure]:
    """The second image into a store whose first one is being compressed, as a daemon does it."""
    inputs = make_inputs(quick)
    second = inputs["second"].path
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(1 if quick else ROUNDS):
        for busy in (number % 2 == 0, number % 2 != 0):
            with store_with(inputs["first"]) as (store, root):
                warm(second)
                with _settled(store) if busy else contextlib.nullcontext():
                    took = timed(lambda: store.import_file(second, base=root))
            seconds[busy].append(took)
    data = inputs["second"].data
    yield figure(
        "store import second, beside settling",
        statistics.median(seconds[True]),
        "s",
        against=("the same alone", statistics.median(seconds[False])),
        at_most=GOAL,
        bound=this_host(quick=quick).least(copied=data, hashed=data),
    )


@contextlib.contextmanager
def _settled(store: Store) -> Iterator[None]:
    """Within it the store is settled in the background, from its first frames on.

    Raises SatchelError where that ended before the body did: then nothing ran beside it.
    """
    begun, enough = threading.Event(), threading.Event()

    def look(done: int, total: int) -> None:
        if enough.is_set():
            raise _Enough
        if done:
            begun.set()

    def settle() -> None:
        with contextlib.suppress(_Enough):
            store.settle(background=True, progress=look)
        begun.set()

    thread = threading.Thread(target=settle, name="settling")
    thread.start()
    try:
        begun.wait()
        yield
        beside = thread.is_alive()
    finally:
        enough.set()
        thread.join()
    if not beside:
        raise SatchelError("the store was settled before the import ended")
