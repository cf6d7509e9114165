# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The queue by which feeds report to their session."""

import threading
from concurrent.futures import ThreadPoolExecutor

from client.session.feed import Event, EventQueue, Feed, FeedState, LossEvent, SendEvent
from satchel.errors import SatchelError
from satchel.ids import OperationNumber
from tests.client.replicas import InProcess
from tests.client.test_comparison import Nothing, feed


def test_events_of_many_threads_are_handled_one_at_a_time_and_before_put_returns() -> None:
    handled: list[int] = []
    under_way = threading.Lock()

    def handle(event: Event) -> None:
        assert isinstance(event, SendEvent)
        assert under_way.acquire(blocking=False)
        handled.append(event.size)
        under_way.release()

    queue, one = EventQueue(threading.RLock(), handle), feed("a")

    def put(size: int) -> bool:
        queue.put(SendEvent(one, size, apart=False))
        return size in handled

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(put, range(500)))
    assert sorted(handled) == list(range(500))


def test_an_event_that_handling_another_puts_is_handled_after_it() -> None:
    seen: list[str] = []

    def handle(event: Event) -> None:
        assert isinstance(event, SendEvent)
        if event.size:
            queue.put(SendEvent(one, 0, apart=False))
        seen.append(f"{event.size} is handled")

    queue, one = EventQueue(threading.RLock(), handle), feed("a")
    queue.put(SendEvent(one, 7, apart=False))
    assert seen == ["7 is handled", "0 is handled"]


def test_a_feed_whose_event_cannot_be_handled_is_lost_and_others_are_not() -> None:
    lost: list[SatchelError] = []

    def handle(event: Event) -> None:
        if isinstance(event, LossEvent):
            lost.append(event.error)
        elif event.feed is bad:
            raise ValueError("no sense")

    queue = EventQueue(threading.RLock(), handle)
    bad, good = (
        Feed(InProcess(name), OperationNumber(0), Nothing(), queue) for name in ("bad", "good")
    )
    for one in (bad, good):
        queue.put(SendEvent(one, 1, apart=False))
    assert (bad.state, good.state) == (FeedState.LOST, FeedState.CATCHING_UP)
    assert [str(error) for error in lost] == [str(bad.error)]
    assert "no sense" in str(bad.error)
