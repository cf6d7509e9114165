# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who is served first of those who ask at once."""

import threading

from tests.waiting import eventually
from wire import Priority, PrioritySemaphore


def queued(turnstile: PrioritySemaphore, priority: Priority, order: list[str], name: str) -> None:
    """Somebody more who waits, in a thread of its own."""

    def take() -> None:
        with turnstile.turn(priority):
            order.append(name)

    before = len(turnstile._waiting)
    threading.Thread(target=take, daemon=True).start()
    assert eventually(lambda: len(turnstile._waiting) > before)


def test_the_most_urgent_goes_first_then_the_first() -> None:
    turnstile, order = PrioritySemaphore(1), list[str]()
    with turnstile.turn(Priority.BACKGROUND):
        queued(turnstile, Priority.BACKGROUND, order, "later")
        queued(turnstile, Priority.PREFETCH, order, "soon")
        queued(turnstile, Priority.DEMAND, order, "now")
        queued(turnstile, Priority.DEMAND, order, "now too")
        assert order == []
    assert eventually(lambda: order == ["now", "now too", "soon", "later"])


def test_no_more_than_its_width_are_let_through() -> None:
    turnstile, order = PrioritySemaphore(2), list[str]()
    with turnstile.turn(Priority.DEMAND):
        with turnstile.turn(Priority.DEMAND):
            queued(turnstile, Priority.DEMAND, order, "third")
            assert order == []
        assert eventually(lambda: order == ["third"])


def test_a_turn_ends_with_an_error_too() -> None:
    turnstile = PrioritySemaphore(1)
    for _ in range(3):
        try:
            with turnstile.turn(Priority.DEMAND):
                raise ValueError
        except ValueError:
            continue
    with turnstile.turn(Priority.BACKGROUND):
        assert turnstile._waiting == []
