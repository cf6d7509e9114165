# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What client, surrogates and home did for one move, on this host's clock.

A host is asked ROUNDS times what its clock says; the shortest round trip gives the offset, right to
half of that. What it says is a claim: spans count only between the beginning of the move and the
moment of the question, and are drawn as that host's.

The file is in Chrome's trace format (docs/formats/trace.md), for ui.perfetto.dev.
"""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from satchel.errors import SatchelError
from satchel.spans import Span, Spans, Steps
from wire import SpanReport, TimedSpan

logger = logging.getLogger(__name__)

ROUNDS = 5

ASK_SECONDS = 5.0
"""How long a host may take to say what it did."""

MOVE = "move"
"""The kind of the client's steps, one after the other."""

CLIENT = "client"


@dataclass(frozen=True)
class ClockOffset:
    """Of a host: what is added to its moments, and by how much that may be wrong, in seconds."""

    offset: float = 0.0
    error: float = 0.0


@dataclass(frozen=True)
class HostSpans:
    """What a host did, on this host's clock. missing: why nothing is known of it."""

    host: str
    clock: ClockOffset
    spans: Sequence[Span]
    missing: str = ""

    def to_json(self) -> dict[str, Any]:
        report = SpanReport(0.0, tuple(TimedSpan(*span) for span in self.spans))
        return {"host": self.host, "clock": vars(self.clock), "missing": self.missing} | {
            "spans": report.to_json()["spans"]
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> HostSpans:
        """Of our own session. Raises RemoteProtocolError, KeyError, TypeError."""
        report = SpanReport.from_json({"now": 0.0, "spans": value["spans"]})
        spans = [Span(s.name, s.kind, s.began, s.ended) for s in report.spans]
        return cls(value["host"], ClockOffset(**value["clock"]), spans, value["missing"])


Ask = Callable[[str, float], Any]
"""The answer to GET of a path, in so many seconds: JSON of anybody."""


@dataclass
class MoveTrace:
    """Of one move, from its making on. Of one thread, but for `spans`."""

    spans: Spans = field(default_factory=Spans)
    began: float = field(default_factory=time.monotonic)
    hosts: list[HostSpans] = field(default_factory=list)

    def steps(self) -> Steps:
        """The client's, from now on."""
        return Steps(self.spans, MOVE)

    def gather(self, host: str, ask: Ask, path: str) -> None:
        """Ask a host what it did since the move began. Never fails: it may know nothing of this, or
        be gone. ask: what `path` answers, and with `?since=`."""
        try:
            clock, now = clock_of(ask, path)
            since = self.began - clock.offset - clock.error
            report = SpanReport.from_json(ask(f"{path}?since={max(0.0, since):.6f}", ASK_SECONDS))
        except SatchelError as error:
            logger.warning("%s says nothing of what it did: %s", host, error)
            self.hosts.append(HostSpans(host, ClockOffset(), (), str(error)))
            return
        self.hosts.append(HostSpans(host, clock, within(report, clock, self.began, now)))

    def to_json(self) -> list[dict[str, Any]]:
        """All hosts, the client first."""
        mine = HostSpans(CLIENT, ClockOffset(), self.spans.since(self.began))
        return [host.to_json() for host in (mine, *self.hosts)]


def clock_of(ask: Ask, path: str) -> tuple[ClockOffset, float]:
    """A host's clock, and the moment here until which it was asked. Raises as `ask`, and
    RemoteProtocolError."""
    found: list[ClockOffset] = []
    for _ in range(ROUNDS):
        sent = time.monotonic()
        report = SpanReport.from_json(ask(path, ASK_SECONDS))
        answered = time.monotonic()
        found.append(ClockOffset((sent + answered) / 2 - report.now, (answered - sent) / 2))
    return min(found, key=lambda clock: clock.error), time.monotonic()


def within(report: SpanReport, clock: ClockOffset, began: float, ended: float) -> list[Span]:
    """A host's spans on this host's clock, cut to what the move took. Those outside are left out,
    whoever made them up."""
    spans = []
    for told in report.spans:
        start, end = told.began + clock.offset, told.ended + clock.offset
        if end > began and start < ended:
            spans.append(Span(told.name, told.kind, max(start, began), min(end, ended)))
    return spans


def unexplained(hosts: Sequence[HostSpans], waiting: Iterable[str]) -> list[tuple[float, float]]:
    """From when to when nobody says what was done, of the steps of the client in which it does:
    those in `waiting` explain nothing, as it waits for others there."""
    idle = set(waiting)
    steps = [span for host in hosts if host.host == CLIENT for span in host.spans]
    told = [span for host in hosts if host.host != CLIENT for span in host.spans]
    told += [span for span in steps if span.name not in idle]
    at = min((span.began for span in steps), default=0.0)
    end = max((span.ended for span in steps), default=0.0)
    gaps = []
    for span in sorted(told, key=lambda span: span.began):
        if span.began > at:
            gaps.append((at, min(span.began, end)))
        at = max(at, span.ended)
    return [*gaps, *([(at, end)] if end > at else [])]


def chrome(hosts: Sequence[HostSpans]) -> str:
    """The file: each host a process, each kind a thread, or as many as overlap in it."""
    begin = min((span.began for host in hosts for span in host.spans), default=0.0)
    events: list[dict[str, Any]] = []
    for process, host in enumerate(hosts, 1):
        events.append(_named("process_name", process, 0, host.host))
        for thread, (kind, spans) in enumerate(_rows(host.spans), 1):
            events.append(_named("thread_name", process, thread, kind))
            events += [_event(span, process, thread, begin) for span in spans]
    said = {
        host.host: {"clock_error_ms": round(host.clock.error * 1000, 3), "missing": host.missing}
        for host in hosts
    }
    whole = {"displayTimeUnit": "ms", "otherData": said, "traceEvents": events}
    return json.dumps(whole, separators=(",", ":")) + "\n"


def _rows(spans: Iterable[Span]) -> list[tuple[str, list[Span]]]:
    """The spans of each kind in rows in which none overlaps another."""
    rows: dict[str, list[list[Span]]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: (span.began, -span.ended)):
        row = next((r for r in rows[span.kind] if r[-1].ended <= span.began), None)
        if row is None:
            rows[span.kind].append(row := [])
        row.append(span)
    return [
        (f"{kind} {number}" if number > 1 else kind, row)
        for kind, found in rows.items()
        for number, row in enumerate(found, 1)
    ]


def _event(span: Span, process: int, thread: int, begin: float) -> dict[str, Any]:
    """Times are in microseconds."""
    start = round((span.began - begin) * 1e6)
    seconds = round((span.ended - begin) * 1e6) - start
    place = {"ph": "X", "pid": process, "tid": thread}
    return {"name": span.name, "cat": span.kind, "ts": start, "dur": seconds} | place


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
