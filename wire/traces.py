# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a host did for a move: how its spans travel, and which requests it answered meanwhile.

Clocks of two hosts have nothing in common, so a report says what its host's clock says at that
moment. Whoever asks knows when it asked and when it was answered, and with it the offset, up to
half of the round trip (Cristian, Distributed Computing 3, 1989, section 3).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import flask

from satchel.spans import SPANS_KEPT, Span, Spans
from wire.errors import LocalProtocolError
from wire.messages import JsonMessage, check_name

NAME_LIMIT = 120
"""Characters of what a span is called."""

REPORT_LIMIT = 2 * SPANS_KEPT
"""Spans in one report."""

REQUESTS = "requests"
"""The kind of what a daemon was asked."""


@dataclass(frozen=True)
class TimedSpan(JsonMessage):
    """A span, in seconds of the clock of its host."""

    name: str
    kind: str
    began: float
    ended: float

    def __post_init__(self) -> None:
        check_name(self.kind, "kind")
        if not self.name.isprintable() or not 0 < len(self.name) <= NAME_LIMIT:
            raise LocalProtocolError(f"{self.name[:NAME_LIMIT]!r} is not the name of a span")
        if self.ended < self.began:
            raise LocalProtocolError("a span has no such times", why="it ends before it begins")


@dataclass(frozen=True)
class SpanReport(JsonMessage):
    """What a host did. now: what its clock says, in seconds."""

    now: float
    spans: tuple[TimedSpan, ...] = ()

    def __post_init__(self) -> None:
        if len(self.spans) > REPORT_LIMIT:
            raise LocalProtocolError("too many spans", why=f"{len(self.spans)}")

    @classmethod
    def of(cls, spans: Iterable[Span]) -> SpanReport:
        """What this host says now."""
        told = tuple(TimedSpan(_plain(s.name), s.kind, s.began, s.ended) for s in spans)
        return cls(time.monotonic(), told)


def _plain(name: str) -> str:
    """It may have what a guest or a program calls something."""
    return "".join(filter(str.isprintable, name))[:NAME_LIMIT] or "?"


def answer_spans(*recorders: Spans) -> dict[str, object]:
    """The answer to a request for spans: with `?since=SECONDS` of this host's clock those that
    ended after that, without it only what the clock says."""
    since = flask.request.args.get("since", math.inf, float)
    return SpanReport.of(span for kept in recorders for span in kept.since(since)).to_json()


def note_requests(app: flask.Flask, spans: Spans) -> None:
    """Record each request from when it is read until its answer is handed on whole."""

    @app.before_request
    def come() -> None:
        flask.g.came = time.monotonic()

    @app.after_request
    def go(response: flask.Response) -> flask.Response:
        name, came = _called(), flask.g.came
        if flask.request.path.endswith("/spans"):
            return response
        response.call_on_close(lambda: spans.add(name, REQUESTS, came, time.monotonic()))
        return response


def _called() -> str:
    """A request by its route, so that no name of a service, a person or a client is told."""
    rule = flask.request.url_rule
    return f"{flask.request.method} {rule or 'no such route'}"[:NAME_LIMIT]


__all__ = ["SpanReport", "TimedSpan", "answer_spans", "note_requests"]
