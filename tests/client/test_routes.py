# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What routes are predicted to take, and the bytes of docs/formats/client-state.md."""

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.cli.plan import row
from client.moves.history import KEPT, History, MovesInvalid, decode, encode
from client.moves.routes import (
    CACHE,
    FIRST_HOME_RATE,
    FIRST_RATE,
    FIRST_START_SECONDS,
    MoveRecord,
    Route,
    Situation,
    break_even,
    predict,
    replay_pace,
    was_there,
)
from console import show

NOW = Situation(
    replayed=40, pace=0.1, first=4_000_000, changed=500_000, home=True, near="media", giver="a"
)
MADE = MoveRecord(
    at="2026-11-21T23:00:00+00:00",
    surrogate="b",
    checkpoint="0123456789abcdef",
    route=Route.REPLAY,
    near="media",
    bytes=4_000_000,
    asked_seconds=0.0,
    replayed=20,
    replay_seconds=2.0,
    seconds=6.0,
    predicted=9.0,
)
GOLDEN = b"""{
 "version": 3,
 "moves": [
  {
   "at": "2026-11-21T23:00:00+00:00",
   "surrogate": "b",
   "checkpoint": "0123456789abcdef",
   "route": "replay",
   "near": "media",
   "bytes": 4000000,
   "asked_seconds": 0.0,
   "replayed": 20,
   "replay_seconds": 2.0,
   "seconds": 6.0,
   "predicted": 9.0
  }
 ]
}
"""


HANDED = dataclasses.replace(
    MADE, route=Route.HANDOVER, asked_seconds=1.0, replayed=0, replay_seconds=0.0, seconds=2.5
)
"""Nothing was executed: it had caught up when it ran."""


def seconds(
    now: Situation, *made: MoveRecord, others: Sequence[MoveRecord] = ()
) -> dict[Route, float]:
    return {p.route: p.seconds for p in predict(now, "b", made, others)}


def test_the_same_move_again_takes_as_long() -> None:
    again = dataclasses.replace(NOW, replayed=20)
    assert seconds(again, MADE)[Route.REPLAY] == pytest.approx(6.0)


def test_each_operation_more_takes_its_time() -> None:
    assert seconds(NOW, MADE)[Route.REPLAY] == pytest.approx(8.0)


def test_a_link_that_was_faster_is_believed_after_most_moves_were() -> None:
    slow = [dataclasses.replace(MADE, seconds=10.0)] * 3
    fast = [dataclasses.replace(MADE, seconds=4.0)] * 3
    again = dataclasses.replace(NOW, replayed=20)
    assert seconds(again, *slow)[Route.REPLAY] == pytest.approx(10.0)
    assert seconds(again, *slow, *fast)[Route.REPLAY] == pytest.approx(4.0)


def test_another_surrogate_s_moves_count_where_there_are_none_of_this_one() -> None:
    other = dataclasses.replace(MADE, surrogate="c", seconds=10.0)
    assert seconds(NOW, other)[Route.REPLAY] == pytest.approx(12.0)
    assert seconds(NOW, other, MADE)[Route.REPLAY] == pytest.approx(8.0)


def test_a_replay_says_how_long_an_operation_takes_when_it_is_replayed() -> None:
    few = dataclasses.replace(MADE, replayed=1, replay_seconds=9.0)
    assert replay_pace([few]) is None
    other = dataclasses.replace(MADE, replay_seconds=8.0)
    assert replay_pace([MADE, few, other, other]) == pytest.approx(0.4)


def test_what_one_source_gives_says_nothing_of_another_one() -> None:
    from_home = dataclasses.replace(MADE, near="home", seconds=100.0)
    there = dataclasses.replace(NOW, replayed=20)
    assert seconds(there, MADE, *[from_home] * 4)[Route.REPLAY] == pytest.approx(6.0)
    assert seconds(there, from_home)[Route.REPLAY] == seconds(there)[Route.REPLAY]
    at_home = dataclasses.replace(there, near="home")
    assert seconds(at_home, MADE)[Route.REPLAY] == pytest.approx(2.0 + 4e6 / FIRST_HOME_RATE)


def test_a_source_s_rate_is_that_of_another_route_before_it_is_a_guess() -> None:
    fresh = dataclasses.replace(MADE, route=Route.FRESH, near="home", asked_seconds=4.0)
    fresh = dataclasses.replace(fresh, seconds=14.0)
    at_home = dataclasses.replace(NOW, replayed=20, near="home")
    assert seconds(at_home, fresh)[Route.REPLAY] == pytest.approx(10.0)


def test_moves_that_had_nothing_to_execute_say_nothing_of_those_that_have() -> None:
    started = dataclasses.replace(MADE, replayed=0, replay_seconds=0.0, seconds=0.8)
    nothing = dataclasses.replace(NOW, replayed=0)
    assert seconds(NOW, started, MADE, started, started)[Route.REPLAY] == pytest.approx(8.0)
    assert seconds(NOW, started) == seconds(NOW)
    assert seconds(nothing, started, MADE, MADE)[Route.REPLAY] == pytest.approx(0.8)
    assert seconds(nothing)[Route.REPLAY] == FIRST_START_SECONDS["replay"]
    fresh = dataclasses.replace(started, route=Route.FRESH, near="home", asked_seconds=4.0)
    fresh = dataclasses.replace(fresh, seconds=5.3)
    at_home = dataclasses.replace(NOW, near="home", pace=0.0)
    assert seconds(at_home, fresh)[Route.REPLAY] == pytest.approx(4e6 / FIRST_HOME_RATE)
    assert seconds(at_home, fresh)[Route.FRESH] == pytest.approx(5.3)


def test_moves_under_a_load_that_never_rests_are_predicted_as_they_were() -> None:
    busy = dataclasses.replace(HANDED, replayed=500, replay_seconds=5.0, seconds=9.0)
    busy = dataclasses.replace(busy, bytes=NOW.first + (NOW.changed or 0))
    assert seconds(NOW, busy)[Route.HANDOVER] == pytest.approx(1.0 + 3.0)


def test_what_changed_has_to_come_before_a_hand_over_is_done() -> None:
    more = dataclasses.replace(NOW, changed=NOW.changed + 6_000_000 if NOW.changed else None)
    later = seconds(more)[Route.HANDOVER] - seconds(NOW)[Route.HANDOVER]
    assert later == pytest.approx(6e6 / FIRST_RATE)


def test_a_service_s_first_moves_take_what_those_of_other_services_took() -> None:
    assert seconds(NOW, others=[HANDED])[Route.HANDOVER] == pytest.approx(
        2.5 + 500_000 / FIRST_RATE
    )
    nothing = dataclasses.replace(NOW, replayed=0)
    started = dataclasses.replace(MADE, replayed=0, replay_seconds=0.0, seconds=0.5)
    assert seconds(nothing, others=[started, MADE])[Route.REPLAY] == pytest.approx(0.5)
    assert seconds(NOW, others=[started, MADE])[Route.REPLAY] == pytest.approx(4.0 + 40 * 0.1)
    own = dataclasses.replace(MADE, seconds=10.0)
    assert seconds(NOW, own, others=[MADE])[Route.REPLAY] == pytest.approx(8.0 + 40 * 0.1)


def test_of_a_stateless_service_what_its_first_answer_needs_has_to_come() -> None:
    speech = dataclasses.replace(NOW, replayed=0, changed=None, home=False, answers=True)
    assert seconds(speech) == {Route.REPLAY: pytest.approx(4e6 / FIRST_RATE)}
    answered = dataclasses.replace(MADE, replayed=1, replay_seconds=0.0, seconds=9.0)
    assert seconds(speech, answered) == {Route.REPLAY: pytest.approx(9.0)}


def test_a_surrogate_has_a_checkpoint_that_was_resumed_there_whatever_the_clocks() -> None:
    ahead = dataclasses.replace(MADE, at="2098-11-21T23:00:00+00:00")
    assert was_there("b", MADE.checkpoint, [ahead])
    assert not was_there("b", "fedcba9876543210", [ahead])
    assert not was_there("a", MADE.checkpoint, [ahead])
    cached = dataclasses.replace(MADE, near=CACHE, seconds=3.0)
    there = dataclasses.replace(NOW, replayed=20, near=CACHE)
    assert seconds(there, MADE, cached, MADE)[Route.REPLAY] == pytest.approx(3.0)
    assert seconds(NOW, MADE, cached, MADE)[Route.REPLAY] == pytest.approx(8.0)


def test_with_a_long_log_a_hand_over_is_the_fastest_and_with_a_short_one_replay() -> None:
    handed = dataclasses.replace(HANDED, bytes=4_500_000, seconds=5.0)
    short, long = (dataclasses.replace(NOW, replayed=n) for n in (1, 500))
    assert predict(short, "b", [MADE, handed])[0].route is Route.REPLAY
    best = predict(long, "b", [MADE, handed])[0]
    assert best.route is Route.HANDOVER
    assert best.bytes == {"a": 500_000, "media": 4_000_000}
    assert best.limit == "bytes from media"


def test_only_the_routes_there_are() -> None:
    alone = dataclasses.replace(NOW, changed=None, home=False)
    assert list(seconds(alone)) == [Route.REPLAY]
    assert break_even(alone, "b", []) is None
    assert {p.limit for p in predict(dataclasses.replace(NOW, replayed=900), "b", [MADE])} >= {
        "900 operations",
        "home's checkpoint",
    }


def test_the_break_even_is_where_both_take_as_long() -> None:
    count = break_even(NOW, "b", [MADE])
    assert count is not None
    there = dataclasses.replace(NOW, replayed=count)
    found = seconds(there, MADE)
    assert found[Route.REPLAY] == pytest.approx(found[Route.FRESH], abs=0.2)
    assert break_even(there, "b", [MADE]) == count
    started = dataclasses.replace(MADE, replayed=0, replay_seconds=0.0, seconds=0.8)
    at_first = break_even(dataclasses.replace(NOW, replayed=0), "b", [MADE, started])
    assert at_first == pytest.approx(count, abs=1)


def test_golden_bytes(tmp_path: Path) -> None:
    assert encode([MADE]) == GOLDEN
    assert decode(GOLDEN) == [MADE]
    history = History.of(tmp_path, "notes")
    assert history.moves() == []
    for n in range(KEPT + 3):
        history.add(dataclasses.replace(MADE, replayed=n))
    assert [move.replayed for move in history.moves()] == list(range(3, KEPT + 3))
    assert (tmp_path / "moves" / "notes.json").exists()
    assert history.of_others() == []
    later = dataclasses.replace(MADE, at="2026-11-22T23:00:00+00:00")
    History.of(tmp_path, "speech").add(later)
    History.of(tmp_path, "desktop").add(MADE)
    assert history.of_others() == [MADE, later]
    History.of(tmp_path, "board").add(dataclasses.replace(MADE, at="2098-11-22T23:00:00+00:00"))
    latest = dataclasses.replace(MADE, at="2026-11-23T23:00:00+00:00")
    History.of(tmp_path, "board").add(latest)
    assert [made.at[:4] for made in history.of_others()] == ["2026", "2026", "2098", "2026"]
    assert history.of_others()[-1] == latest


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1},
        {"moves": {}},
        {"moves": [{}]},
        {"moves": [json.loads(GOLDEN)["moves"][0] | {"route": "walk"}]},
        {"moves": [json.loads(GOLDEN)["moves"][0] | {"seconds": 0}]},
        {"moves": [json.loads(GOLDEN)["moves"][0] | {"bytes": -1}]},
        {"moves": [json.loads(GOLDEN)["moves"][0] | {"replay_seconds": True}]},
        {"moves": [json.loads(GOLDEN)["moves"][0] | {"at": 7}]},
        {"moves": [json.loads(GOLDEN)["moves"][0] | {"more": 7}]},
        {"moves": [7]},
    ],
    ids=range(10),
)
def test_damage_is_refused_and_costs_the_history_only(
    change: dict[str, Any], tmp_path: Path
) -> None:
    data = json.dumps(json.loads(GOLDEN) | change).encode()
    with pytest.raises(MovesInvalid):
        decode(data)
    history = History.of(tmp_path, "notes")
    history.add(MADE)
    (tmp_path / "moves" / "notes.json").write_bytes(data)
    assert history.moves() == []
    history.add(MADE)
    assert history.moves() == [MADE]


@given(st.binary(max_size=300))
def test_no_bytes_do_harm(data: bytes) -> None:
    with contextlib.suppress(MovesInvalid):
        moves = decode(data)
        assert decode(encode(moves)) == moves


def test_a_route_is_shown_in_the_units_of_every_other_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    route = {"route": "replay", "seconds": 3.21, "bytes": {"media": 3 << 20, "home": 9}}
    show([row({"surrogate": "cafe"}, route)], as_json=False)
    shown = capsys.readouterr().out.splitlines()[1]
    assert shown.split() == ["cafe", "replay", "3.2", "media", "3.0", "MiB,", "home", "9", "B"]


def test_a_move_with_numbers_that_cannot_be_meant_spoils_no_others(tmp_path: Path) -> None:
    """Those of a hand-over follow from what a surrogate says."""
    history = History.of(tmp_path, "notes")
    history.add(MADE)
    history.add(dataclasses.replace(HANDED, bytes=2**63))
    assert history.moves() == [MADE]
    history.add(HANDED)
    assert history.moves() == [MADE, HANDED]
