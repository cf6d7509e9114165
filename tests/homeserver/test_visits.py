# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Connections of a rehearsal, to plain TCP servers behind a real agent."""

import contextlib
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from homeserver.services.visits import WORDS, PortVisit, examine_ports, visit
from images import ServedPort
from tests.replay.test_streams import Echo, guest, serving


def test_a_service_is_used_and_one_that_is_silent_holds_nobody_up(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homeserver.services.visits.ANSWER_SECONDS", 0.5)
    phases: list[bool] = []
    heard: list[bytes] = []

    class Silent(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            heard.append(self.request.recv(1 << 16))
            self.request.recv(1)

    @contextmanager
    def phase() -> Iterator[None]:
        phases.append(True)
        yield

    with serving(Echo) as echo, serving(Silent) as silent, guest(short_path, echo, silent) as made:
        answers = visit(made.door_path, [echo, silent], 3.0, phase)
        assert answers >= 1
        assert len(phases) >= 2
        assert heard[0] == WORDS


def test_streams_that_are_not_reached_end_it(short_path: Path) -> None:
    with serving(Echo) as port, guest(short_path, port) as made:
        made.port_path.unlink()
        assert visit(made.door_path, [port], 600.0, contextlib.nullcontext) == 0
        made.door.close()
        with pytest.raises(OSError):
            visit(made.door_path, [port], 600.0, contextlib.nullcontext)


def test_each_port_is_reported_with_the_reason_if_it_does_not_answer(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homeserver.services.visits.ANSWER_SECONDS", 0.5)

    class Silent(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.recv(1)

    class Curt(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)

    with serving(Echo) as echo, serving(Silent) as silent, serving(Curt) as curt:
        fronts = {echo: "http", silent: "tcp", curt: "tcp"}
        ports = [ServedPort(front, port, 0) for port, front in fronts.items()]
        with guest(short_path, echo, silent, curt) as made:
            first, second, third = examine_ports(made.door_path, ports)
            assert (first.port, first.front, first.why) == (echo, "http", "")
            assert first.seconds is not None
            assert second == PortVisit(silent, "tcp", None, "it was silent")
            assert third == PortVisit(curt, "tcp", None, "it ended the connection")
            made.port_path.unlink()
            (lost,) = examine_ports(made.door_path, ports[:1])
            assert (lost.seconds, lost.why) == (None, "the guest's streams were lost")
