# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The trace of a move: what is in it, and what a host that lies can put there."""

import json
import math
import time
from typing import Any

import pytest

from client.moves.mover import AWAIT_RUNNING, WAITING
from client.moves.routes import Route
from client.moves.tracing import CLIENT, ClockOffset, HostSpans, MoveTrace, chrome, unexplained
from satchel.spans import SPANS_KEPT, Span, Spans, process_began
from tests.client.world import World, post
from tests.needs import requires
from wire import RemoteProtocolError, SpanReport

SLICE_SECONDS = 0.01


def hosts_of(trace: MoveTrace) -> dict[str, HostSpans]:
    """As `satchel move` gets them: through JSON."""
    told = json.loads(json.dumps(trace.to_json()))
    return {host.host: host for host in map(HostSpans.from_json, told)}


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")
def test_a_hand_over_is_told_by_all_who_take_part(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    post(url)
    began = time.monotonic()
    assert runner.move("b", route=Route.HANDOVER, traced=True).route is Route.HANDOVER
    ended = time.monotonic()
    hosts = hosts_of(runner.trace)
    assert {*hosts} == {CLIENT, "a", "b", "home"}
    assert [host.missing for host in hosts.values()] == [""] * 4
    spans = {host: {span.name for span in told.spans} for host, told in hosts.items()}
    assert {"connect", "wait until it runs", "end the replica at a"} <= spans[CLIENT]
    assert {"paused, device state saved", "memory and disks committed"} <= spans["a"]
    assert "POST /v1/replicas/<replica>/hand-over" in spans["a"]
    assert {"volumes attached: nbdkit, nbdfuse", "guest answers"} <= spans["b"]
    assert "volumes attached: nbdkit, nbdfuse" not in spans["a"]  # was before this move
    for told in hosts.values():
        assert all(began <= s.began <= s.ended <= ended for s in told.spans)
        # One kernel has all four here, so the clocks are one.
        assert abs(told.clock.offset) <= told.clock.error + SLICE_SECONDS
    frozen = next(s for s in hosts["a"].spans if s.name.endswith("hand-over"))
    attached = next(s for s in hosts["b"].spans if s.name.startswith("volumes attached"))
    assert frozen.ended <= attached.ended


def test_what_nobody_explains_is_found() -> None:
    steps = [Span("plan", "move", 0, 1), Span(AWAIT_RUNNING, "move", 1, 5), Span("x", "move", 6, 7)]
    theirs = [Span("work", "machine", 1.5, 3), Span("work", "fetch", 2, 4)]
    hosts = [HostSpans(CLIENT, ClockOffset(), steps), HostSpans("a", ClockOffset(), theirs)]
    assert unexplained(hosts, WAITING) == [(1, 1.5), (4, 6)]


def test_what_overlaps_of_a_kind_is_drawn_in_rows() -> None:
    spans = [Span("one", "fetch", 1.0, 2.0), Span("two", "fetch", 1.5, 3.0), Span("x", "m", 0, 9)]
    drawn = json.loads(chrome([HostSpans("h", ClockOffset(), spans)]))
    events = [event for event in drawn["traceEvents"] if event["ph"] == "X"]
    threads = {e["args"]["name"]: e["tid"] for e in drawn["traceEvents"] if e["ph"] == "M"}
    by_name = {event["name"]: event for event in events}
    assert by_name["one"]["tid"] == threads["fetch"]
    assert by_name["two"]["tid"] == threads["fetch 2"]
    assert (by_name["one"]["ts"], by_name["one"]["dur"]) == (1_000_000, 1_000_000)


def test_the_file_is_pinned() -> None:
    hosts = [HostSpans(CLIENT, ClockOffset(), [Span("connect", "move", 3.0, 3.25)])]
    assert chrome(hosts) == (
        '{"displayTimeUnit":"ms","otherData":{"client":{"clock_error_ms":0.0,"missing":""}},'
        '"traceEvents":['
        '{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"client"}},'
        '{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"move"}},'
        '{"name":"connect","cat":"move","ts":0,"dur":250000,"ph":"X","pid":1,"tid":1}]}\n'
    )


def test_a_host_with_another_clock_is_put_onto_this_one() -> None:
    ahead = 5000.0

    def ask(path: str, timeout: float) -> Any:
        now = time.monotonic() + ahead
        told = [{"name": "work", "kind": "machine", "began": now - 0.01, "ended": now}]
        return {"now": now, "spans": told if "since" in path else []}

    trace = MoveTrace()
    time.sleep(0.02)
    trace.gather("far", ask, "spans")
    (far,) = trace.hosts
    assert abs(far.clock.offset + ahead) <= far.clock.error
    (span,) = far.spans
    assert trace.began <= span.began <= span.ended <= time.monotonic()


@pytest.mark.parametrize(
    "spans",
    [
        [{"name": "x" * 121, "kind": "m", "began": 0.0, "ended": 1.0}],
        [{"name": "\x1b[2J", "kind": "m", "began": 0.0, "ended": 1.0}],
        [{"name": "", "kind": "m", "began": 0.0, "ended": 1.0}],
        [{"name": "x", "kind": "../m", "began": 0.0, "ended": 1.0}],
        [{"name": "x", "kind": "m", "began": 2.0, "ended": 1.0}],
        [{"name": "x", "kind": "m", "began": math.inf, "ended": math.inf}],
        [{"name": "x", "kind": "m", "began": 0.0, "ended": 1.0, "pid": 1}],
        [{"name": "x", "kind": "m", "began": 0.0, "ended": 1.0}] * (2 * SPANS_KEPT + 1),
    ],
)
def test_what_is_no_report_is_refused(spans: list[Any]) -> None:
    """And then that host's row says why it is empty: the move goes on."""
    with pytest.raises(RemoteProtocolError):
        SpanReport.from_json({"now": 0.0, "spans": spans})
    trace = MoveTrace()
    trace.gather("liar", lambda path, timeout: {"now": 0.0, "spans": spans}, "spans")
    assert trace.hosts[0].missing
    assert not trace.hosts[0].spans


def test_a_host_can_claim_nothing_outside_of_the_move() -> None:
    now = time.monotonic()
    claims = [(0.0, 0.5), (now + 900, now + 901), (0.0, now + 1e9)]
    told = [{"name": "x", "kind": "m", "began": b, "ended": e} for b, e in claims]
    trace = MoveTrace()
    trace.gather("liar", lambda path, timeout: {"now": now, "spans": told}, "spans")
    (span,) = trace.hosts[0].spans
    assert trace.began <= span.began <= span.ended <= time.monotonic()


def test_of_many_spans_the_last_are_kept() -> None:
    spans = Spans()
    for n in range(SPANS_KEPT + 10):
        spans.add(str(n), "m", n, n + 0.5)
    assert [span.name for span in spans.since(0.0)][:1] == ["10"]
    assert [span.name for span in spans.since(SPANS_KEPT + 9)] == [str(SPANS_KEPT + 9)]


def test_a_process_knows_when_it_began() -> None:
    assert 0.0 < time.monotonic() - process_began() < 24 * 3600
