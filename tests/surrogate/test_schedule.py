# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which source is asked for what: in counted time, over links that are known."""

import dataclasses
from typing import Any

import pytest

from chunkstore import PageRange
from surrogate.fetching import Prior, Schedule, SourceState, schedule
from surrogate.fetching.schedule import (
    LOOK_AHEAD,
    RETRY_MOST_SECONDS,
    RETRY_SECONDS,
    SEARCH_SECONDS,
)
from surrogate.fetching.source_state import (
    AHEAD_SECONDS,
    ASIDE_BYTES,
    ASIDE_SECONDS,
    LEAST_BATCH_BYTES,
    STEADY_REQUESTS,
    URGENT_REQUESTS,
    Want,
)
from tests.surrogate.simulated import Link, World, ref, refs
from wire import PLACES_LIMIT, Priority

WIFI = 11e6 / 8
UPLINK = 256e3 / 8


def media(**changes: Any) -> Link:
    return dataclasses.replace(Link("media", round_trip=0.005, rate=WIFI), **changes)


def home(**changes: Any) -> Link:
    return dataclasses.replace(Link("home", round_trip=0.065, rate=UPLINK), **changes)


def warm(world: World) -> None:
    """Let every source be known."""
    for number, link in enumerate(world.links.values()):
        for turn in range(4):
            world.run(keys=world.want(refs(10**6 + 1000 * number + 40 * turn, 40), links=[link]))


def test_the_nearer_source_is_asked_while_nothing_else_is_known() -> None:
    world = World(media(), home())
    world.run(keys=world.want(refs(0, 50)))
    assert [link.requests for link in world.links.values()] == [1, 0]


def test_what_one_source_lacks_the_next_is_asked_for() -> None:
    near, far = media(), home()
    near.lacks = set(refs(10, 5))
    world = World(near, far)
    wanted = world.want(refs(0, 20))
    world.run(keys=wanted)
    assert far.bytes == 5 * 2000
    assert world.seconds(wanted) < 1.5


def test_a_slow_first_source_does_not_keep_the_faster_second_one_idle() -> None:
    """A bad stick beside a good uplink: soon nearly everything comes from home."""
    near, far = media(rate=30e3), home(rate=2e6, round_trip=0.03)
    world = World(near, far)
    world.run(keys=world.want(refs(0, 1000), Priority.PREFETCH, 4160))
    assert world.now < 1.4 * (1000 * 4160 / 2.03e6) + 2.0
    assert far.bytes > 10 * near.bytes


def test_a_miss_goes_to_where_it_comes_from_first_given_what_is_queued_there() -> None:
    near, far = media(), home(rate=1e6, round_trip=0.03)
    world = World(near, far)
    warm(world)
    world.want(refs(0, 200), links=[near])  # 0.3 s of the near one
    (miss,) = world.want([ref(5000)])
    world.run(keys=[miss])
    assert world.seconds([miss]) < 0.05
    assert world.sent[-1][1].standing is far.standing


def test_a_request_has_no_more_places_than_a_source_takes() -> None:
    world = World(media())
    warm(world)
    sent = len(world.sent)
    places = [PageRange(ref(n), 0, 0, 1) for n in range(3 * PLACES_LIMIT)]
    world.run(keys=world.want(places, Priority.PREFETCH, 100))
    sizes = [len(dispatch.keys) for _, dispatch in world.sent[sent:]]
    assert sum(sizes) == len(places)
    assert max(sizes) == PLACES_LIMIT


def test_a_source_is_tried_with_no_more_places_than_it_takes() -> None:
    places = [Want(PageRange(ref(n), 0, 0, 1), 100, Priority.PREFETCH, []) for n in range(99)]
    assert schedule._a_few(places) == places[:PLACES_LIMIT]


@pytest.mark.parametrize(("missing", "count"), [(0, 2), (1, 3)])
def test_a_source_is_tried_with_as_much_as_shows_its_rate(missing: int, count: int) -> None:
    sizes = (LEAST_BATCH_BYTES // 2, LEAST_BATCH_BYTES // 2 - missing, 9, 9)
    wants = [Want(ref(n), size, Priority.PREFETCH, []) for n, size in enumerate(sizes)]
    assert schedule._a_few(wants) == wants[:count]


def test_two_sources_share_a_bulk_by_their_rates() -> None:
    near, far = media(), home(rate=WIFI / 2, round_trip=0.02)
    world = World(near, far)
    warm(world)
    began = world.now
    world.run(keys=world.want(refs(0, 800), Priority.PREFETCH, 4160))
    assert world.now - began < 1.15 * 800 * 4160 / (1.5 * WIFI) + 0.1
    assert near.bytes > far.bytes > 0.2 * near.bytes


def test_a_much_slower_source_is_spared_what_nobody_waits_for() -> None:
    near, far = media(), home()
    world = World(near, far)
    warm(world)
    before = far.bytes
    world.run(keys=world.want(refs(0, 800), Priority.PREFETCH, 4160))
    assert far.bytes == before


@pytest.mark.parametrize(
    ("rate", "round_trip"), [(WIFI, 0.005), (25e6, 0.005), (32e3, 0.065), (25e6, 0.06)]
)
def test_a_bulk_keeps_its_link_busy(rate: float, round_trip: float) -> None:
    world = World(media(rate=rate, round_trip=round_trip))
    size = max(500, int(rate / 4160))
    world.run(keys=world.want(refs(0, size), Priority.PREFETCH, 4160))
    assert world.now < 1.2 * size * 4160 / rate + 10 * round_trip


def test_what_came_slowly_because_little_was_asked_for_makes_no_link_slow() -> None:
    """Readers wait for a frame each, and each frame is small. Then there is much to bring."""
    world = World(home(rate=25e6))
    warm(world)
    for number in range(20):
        world.run(keys=world.want([ref(9000 + number)]))
    (link,) = world.links.values()
    for number in range(150):
        world.want(refs(1000 * number, 3), Priority.PREFETCH, 4160)
        world.run(world.now + 0.02)
    assert link.standing.estimate.rate > 1e6
    began = world.now
    world.run(keys=world.want(refs(10**6, 6000), Priority.PREFETCH, 4160))
    assert 6000 * 4160 / (world.now - began) > 0.3 * link.rate


def test_a_link_that_is_taken_for_slow_is_found_out() -> None:
    world = World(home(rate=25e6))
    (link,) = world.links.values()
    link.rate = 40e3
    warm(world)
    assert link.standing.estimate.rate < 100e3
    link.rate = 25e6
    for number in range(20):
        world.run(keys=world.want(refs(1000 * number, 30), Priority.PREFETCH, 4160))
        world.run(keys=world.want([ref(10**5 + number)]))
    world.run(keys=world.want(refs(0, 6000), Priority.PREFETCH, 4160))
    assert link.standing.estimate.rate > 5e6


def test_a_link_that_becomes_slow_is_found_out_by_misses_and_by_a_bulk() -> None:
    for priority in (Priority.DEMAND, Priority.PREFETCH):
        world = World(home(rate=25e6))
        warm(world)
        (link,) = world.links.values()
        link.rate = UPLINK
        world.run(keys=world.want(refs(0, 200), priority, 4160))
        assert link.standing.estimate.rate < 2 * UPLINK


@pytest.mark.parametrize("other", [Priority.PREFETCH, Priority.BACKGROUND])
def test_a_miss_waits_little_behind_what_nobody_waits_for(other: Priority) -> None:
    world = World(media())
    warm(world)
    world.want(refs(0, 2000), other, 4160)
    for number in range(20):
        world.run(world.now + 0.07)
        world.run(keys=world.want([ref(9000 + number)]))
        alone = other is Priority.BACKGROUND  # one request at a time
        bulk = (AHEAD_SECONDS if alone else 2 * (ASIDE_SECONDS + 0.005)) * WIFI + 2 * 4160
        assert world.seconds([ref(9000 + number)]) < 0.005 + (bulk + 2000) / WIFI + 0.01


def test_background_waits_until_nothing_else_does() -> None:
    world = World(media())
    warm(world)
    low = world.want(refs(0, 100), Priority.BACKGROUND, 4160)
    high = world.want(refs(1000, 300), Priority.PREFETCH, 4160)
    world.run(keys=[*low, *high])
    assert max(world.came[key] for key in high) < sorted(world.came[key] for key in low)[50]


def test_a_stream_keeps_a_fast_link_busy_while_the_ends_are() -> None:
    """An answer of 100 KB takes 7 ms to be found and taken in, and 4 ms on the link."""
    world = World(media(rate=25e6, ends=0.007))
    warm(world)
    began = world.now
    world.run(keys=world.want(refs(0, 3000), Priority.PREFETCH, 4160))
    assert 3000 * 4160 / (world.now - began) > 0.75 * 25e6


def test_requests_of_a_stream_are_few_and_small() -> None:
    world = World(media(rate=25e6))
    world.run(keys=world.want(refs(0, 3000), Priority.PREFETCH, 4160))
    assert max(d.size for _, d in world.sent) <= ASIDE_BYTES
    assert 2 <= world.deepest <= STEADY_REQUESTS


def test_two_readers_of_one_chunk_cost_one_request() -> None:
    world = World(media())
    world.want([ref(1)], Priority.BACKGROUND)
    world.want([ref(1)])
    world.run(keys=[ref(1)])
    assert len(world.sent) == 1


def test_who_waits_harder_raises_what_is_queued() -> None:
    world = World(media())
    warm(world)
    world.want(refs(0, 500), Priority.PREFETCH, 4160)
    world.want([ref(499)])
    world.run(keys=[ref(499)])
    assert len(world.came) < 160 + 100


def test_two_replicas_that_want_the_same_may_get_it_from_either() -> None:
    one, other = media(mute=True), home()
    world = World(one, other)
    world.want([ref(1)], links=[one])
    world.want([ref(1)], links=[other])
    world.run(keys=[ref(1)])
    assert ref(1) in world.came
    assert world.now < 3.0


def test_a_replica_is_never_served_by_what_is_another_ones() -> None:
    one, other = media(), home()
    world = World(one, other)
    world.run(keys=world.want(refs(0, 50), links=[other]))
    assert one.requests == 0


def test_a_dead_source_costs_its_error_and_no_more() -> None:
    near, far = media(broken=True), home(rate=1e6)
    world = World(near, far)
    wanted = world.want(refs(0, 40))
    world.run(keys=wanted)
    assert world.seconds(wanted) < 0.005 + 0.065 + 40 * 2000 / 1e6 + 0.01
    assert near.requests == 1


def test_a_dead_source_is_tried_with_what_comes_from_elsewhere_and_used_again() -> None:
    near, far = media(broken=True), home(rate=200e3)
    world = World(near, far)
    world.run(keys=world.want(refs(0, 5)))
    near.broken = False
    late = []
    for number in range(60):
        world.run(world.now + 0.1)
        late.append(world.want([ref(100 + number)])[0])
        world.run(keys=late[-1:])
    assert max(world.seconds([key]) for key in late) < 0.1
    assert [s for _, d in world.sent[-5:] if (s := d.standing) is not near.standing] == []


def test_a_source_that_stays_dead_is_tried_less_and_less() -> None:
    near, far = media(broken=True), home(rate=200e3)
    world = World(near, far)
    for number in range(600):
        world.run(world.now + 0.05)
        world.run(keys=world.want([ref(number)]))
    assert 3 <= near.requests <= 4 + world.now / (4 * RETRY_SECONDS)


def test_once_a_source_has_failed_nobody_looks_all_the_time() -> None:
    near, far = media(broken=True), home()
    world = World(near, far)
    world.run(keys=world.want(refs(0, 5)))
    near.broken = False
    world.run(world.now + RETRY_SECONDS)
    world.want(refs(100, 2000), Priority.PREFETCH)
    for _ in range(50):
        assert world.schedule.wake_at(world.now) > world.now
        world.run(world.now + 0.1)


def test_a_silent_source_is_not_waited_for_longer_than_it_usually_takes() -> None:
    """The stick is pulled out, and the reader hangs."""
    near, far = media(), home(rate=1e6, round_trip=0.03)
    world = World(near, far)
    warm(world)
    near.mute = True
    wanted = world.want(refs(0, 10))
    world.run(keys=wanted)
    assert world.seconds(wanted) < 0.5
    again = world.want(refs(100, 10))
    world.run(keys=again)
    assert world.seconds(again) < 0.1, "it is known to be late"


def test_a_source_that_is_late_with_everything_goes_on_being_waited_for_alone() -> None:
    near = media()
    world = World(near)
    warm(world)
    near.rate = 10e3
    wanted = world.want(refs(0, 40))
    world.run(keys=wanted)
    assert world.seconds(wanted) == pytest.approx(8.0, rel=0.1)
    assert sum(d.standing is near.standing for _, d in world.sent[4:]) == 1


def test_what_nobody_has_is_asked_for_again_and_again_but_not_all_the_time() -> None:
    near = media()
    near.lacks = {ref(1)}
    world = World(near)
    world.want([ref(1)])
    world.run(10.0)
    assert 0.9 * 10.0 / SEARCH_SECONDS <= near.requests <= 10.0 / SEARCH_SECONDS
    near.lacks = set()
    world.run(keys=[ref(1)])
    assert ref(1) in world.came


def test_a_source_that_usually_lacks_things_is_asked_after_one_that_has_them() -> None:
    peer = Link("peer", 0.001, 10e6, hits=0.5)
    peer.lacks = set(refs(0, 1000))
    near = media()
    world = World(peer, near)
    for number in range(100):
        world.run(keys=world.want([ref(number)]))
    assert peer.requests < 10
    assert near.requests == 100


def test_what_a_source_that_goes_away_was_asked_for_comes_from_elsewhere() -> None:
    near, far = media(mute=True), home(rate=1e6)
    world = World(near, far)
    wanted = world.want(refs(0, 10))
    world.schedule.part(near.standing)
    world.take()
    world.run(keys=wanted)
    assert world.seconds(wanted) < 0.2


def test_a_forgotten_want_is_not_asked_for() -> None:
    world = World(media())
    warm(world)
    sent = len(world.sent)
    for key in world.want(refs(0, 100), Priority.BACKGROUND, 4160)[-50:]:
        world.schedule.forget(key)
    world.run(5.0)
    assert sum(len(d.wants) for _, d in world.sent[sent:]) <= 50
    assert ref(99) not in world.schedule


def test_what_is_under_way_and_wanted_again_is_not_asked_for_twice() -> None:
    world = World(media(), home())
    (key,) = world.want([ref(1)])
    world.schedule.forget(key)
    world.want([key])
    assert key in world.schedule
    world.run(keys=[key])
    assert len(world.sent) == 1
    for key in world.want(refs(2, 9)):
        world.schedule.forget(key)
    world.run(world.now + 1.0)
    assert not world.schedule._adrift


def test_what_is_late_and_wanted_again_is_asked_for_elsewhere() -> None:
    near, far = media(mute=True), home()
    world = World(near, far)
    (key,) = world.want([ref(1)])
    world.schedule.forget(key)
    world.run(10.0)
    world.take()
    world.want([key])
    world.run(keys=[key])
    assert world.now < 11.0
    assert (near.requests, far.requests) == (1, 1)


def test_what_is_under_way_for_another_replica_is_asked_for_here() -> None:
    one, other = media(mute=True), home()
    world = World(one, other)
    (key,) = world.want([ref(1)], links=[one])
    world.schedule.forget(key)
    world.want([key], links=[other])
    world.run(keys=[key])
    assert world.now < 1.0


def test_a_source_on_trial_takes_nothing_away_from_who_waits() -> None:
    """Who waited for a block gave up, and another replica waits for it and has its turn to come.
    A source that failed is tried with what the first one's request has."""
    one, other, mine = media(mute=True), home(broken=True), media(rate=20e3)
    world = World(one, other, mine)
    (key,) = world.want([ref(1)], links=[one, other])
    world.schedule.leave_alone(other.standing, world.now)
    world.schedule.forget(key)
    world.run(2 * RETRY_SECONDS)
    for number in range(URGENT_REQUESTS):
        world.want([ref(100 + number)], links=[mine])
    world.run(keys=world.want([key], links=[mine]))
    assert world.now < 4.0


def test_chunks_and_places_are_asked_for_apart() -> None:
    world = World(media())
    places = [PageRange(ref(1000 + number), 0, 0, 8) for number in range(3)]
    world.run(keys=world.want([*refs(0, 3), *places]))
    assert sorted(len(d.wants) for _, d in world.sent) == [3, 3]
    for _, dispatch in world.sent:
        assert len({type(key) for key in dispatch.keys}) == 1


def test_silences_in_a_row_are_borne_longer_each_time() -> None:
    """On a slow link requests wait behind each other: none may be given up for ever."""
    standing = SourceState("home", media().standing.estimate._prior)
    assert standing.silence == 15.0
    standing.faults_in_row = 1
    assert standing.silence == 30.0
    standing.faults_in_row = 9
    assert standing.silence == 60.0
    world = World(near := media())
    warm(world)
    assert near.standing.silence == 3.0


def test_a_source_that_is_reached_again_is_asked_at_once() -> None:
    """A client walked away, and its source was silent more than once before it was back."""
    near = media()
    world = World(near)
    warm(world)
    near.broken = True
    wanted = world.want(refs(0, 10))
    world.run(world.now + 3.5)
    assert near.standing.faults_in_row > 1
    near.broken = False
    world.schedule.renewed(near.standing, world.now)
    back = world.now
    world.take()
    world.run(keys=wanted)
    assert world.now - back < 0.1
    assert not near.standing.on_trial


def test_the_time_in_which_a_client_was_away_says_nothing_about_its_source() -> None:
    near = media()
    world = World(near)
    warm(world)
    rate, slowest = near.standing.estimate.rate, near.standing.estimate.slowest
    near.mute = True
    wanted = world.want(refs(0, 40))
    world.run(world.now + 2.5)
    (asked,) = near.standing.flying.values()
    assert asked.overdue
    world.schedule.renewed(near.standing, world.now)
    assert not asked.overdue
    assert asked.overdue_at > world.now
    world.schedule.answered(asked, asked.size, set(asked.keys), world.now + asked.predicted)
    assert not any(key in world.schedule for key in wanted)
    assert near.standing.estimate.rate > rate / 2
    assert near.standing.estimate.slowest < 2 * slowest


def test_each_fault_in_a_row_leaves_a_source_alone_for_longer() -> None:
    standing, plan = SourceState("home", Prior()), Schedule()
    plan.want(ref(1), 2000, Priority.DEMAND, [standing])
    now = 0.0
    for turn, pause in enumerate((1.0, 2.0, 4.0, 4.0), start=1):
        plan.leave_alone(standing, now)
        plan.leave_alone(standing, now + pause / 2)  # of the same fault
        assert standing.usable_from == now + pause * RETRY_SECONDS
        assert (standing.on_trial, standing.faults_in_row) == (True, turn)
        assert plan.wake_at(now) == standing.usable_from
        now = standing.usable_from
        assert plan.wake_at(now) > now
    assert max(1.0, 4.0) == RETRY_MOST_SECONDS
    plan.renewed(standing, now)
    assert (standing.on_trial, standing.faults_in_row) == (False, 0)
    assert standing.usable_from < 0


@pytest.mark.parametrize("more", [0, 1])
def test_only_so_many_wants_without_room_are_looked_at(more: int) -> None:
    busy, free = SourceState("busy", Prior()), SourceState("free", Prior())
    plan = Schedule()
    plan.leave_alone(busy, -10.0)
    plan.want(ref(0), 2000, Priority.DEMAND, [busy])
    assert [dispatch.standing for dispatch in plan.take(0.0)] == [busy]  # on trial: one at a time
    for number in range(LOOK_AHEAD - 1 + more):
        plan.want(ref(1 + number), 2000, Priority.DEMAND, [busy])
    plan.want(ref(9999), 2000, Priority.DEMAND, [free])
    assert [dispatch.keys for dispatch in plan.take(0.0)] == [[ref(9999)]] * (1 - more)


def test_a_request_may_have_more_than_is_looked_at_in_vain() -> None:
    world = World(media())
    warm(world)
    world.want(refs(0, 2 * LOOK_AHEAD), Priority.DEMAND, 10)
    assert len(world.sent[-1][1].wants) == 2 * LOOK_AHEAD


def test_what_is_wanted_twice_keeps_its_turn() -> None:
    standing, plan = SourceState("home", Prior()), Schedule()
    for number in (1, 2, 1):
        plan.want(ref(number), 2000, Priority.DEMAND, [standing])
    assert [dispatch.keys for dispatch in plan.take(0.0)] == [[ref(1), ref(2)]]


def test_a_request_that_ended_is_no_fault_later() -> None:
    standing, plan = SourceState("home", Prior()), Schedule()
    plan.want(ref(1), 2000, Priority.DEMAND, [standing])
    (dispatch,) = plan.take(0.0)
    plan.answered(dispatch, 2000, {ref(1)}, 0.1)
    plan.failed(dispatch, 0.2)
    assert not standing.on_trial
    assert standing.usable_from < 0


def test_what_is_wanted_again_is_as_urgent_as_it_is_now() -> None:
    near, far = SourceState("near", Prior()), SourceState("far", Prior())
    plan = Schedule()
    plan.want(ref(1), 2000, Priority.BACKGROUND, [near, far])
    (dispatch,) = plan.take(0.0)
    plan.forget(ref(1))
    plan.want(ref(1), 2000, Priority.DEMAND, [near, far])
    plan.failed(dispatch, 0.1)
    (again,) = plan.take(0.1)
    assert (again.standing, again.priority) == (far, Priority.DEMAND)


def test_a_bulk_is_asked_for_twice_when_it_is_later_than_another_source_would_take() -> None:
    near, far = SourceState("near", Prior()), SourceState("far", Prior(round_trip=1.0))
    plan = Schedule()
    plan.want(ref(1), 2000, Priority.PREFETCH, [near, far])
    (dispatch,) = plan.take(0.0)
    assert dispatch.standing is near
    assert plan.take(dispatch.overdue_at + 0.1) == []
    (again,) = plan.take(dispatch.overdue_at + 2.0)
    assert again.standing is far


def test_a_source_that_comes_back_may_have_what_it_lacked() -> None:
    standing, other, plan = SourceState("near", Prior()), SourceState("far", Prior()), Schedule()
    plan.want(ref(1), 2000, Priority.DEMAND, [standing, other])
    (dispatch,) = plan.take(0.0)
    plan.answered(dispatch, 0, set(), 0.1)
    (at_other,) = plan.take(0.1)
    assert at_other.standing is other
    plan.part(standing)
    plan.failed(at_other, 0.2)
    plan.want(ref(1), 2000, Priority.DEMAND, [standing])
    assert [dispatch.standing for dispatch in plan.take(0.2)] == [standing]


def test_an_answer_tells_how_much_a_source_lacks() -> None:
    near = media()
    near.lacks = set(refs(5, 5))
    world = World(near)
    world.run(world.now + 0.1, keys=world.want(refs(0, 10)))
    assert 0.5 < near.standing.estimate.hits(world.now) < 0.6


def test_a_source_that_is_not_known_is_tried_once_when_much_is_waiting() -> None:
    near, far = media(rate=200e3), home(rate=25e6)
    far.standing = SourceState("home", Prior(rate=10e3))
    world = World(near, far)
    world.run(keys=world.want(refs(10**6, 200), links=[near]))
    far.mute = True
    world.want(refs(0, 2000), Priority.PREFETCH, 4160)
    world.run(world.now + 0.3)
    assert far.requests == 1
    assert near.requests > 2
    assert world.sent[-1][1].standing is near.standing


def test_what_a_known_source_brings_soon_makes_no_other_one_worth_a_trial() -> None:
    near, far = media(), home()
    far.standing = SourceState("home", Prior(rate=10e3))
    world = World(near, far)
    world.run(keys=world.want(refs(10**6, 200), links=[near]))
    world.run(keys=world.want(refs(0, 1000), Priority.PREFETCH, 4160))
    assert far.requests == 0
