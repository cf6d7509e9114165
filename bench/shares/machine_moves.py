# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""MEFS's Figure 6 with a machine that really moves: `files` from one surrogate to the next.

Real programs on the links of today, machines that are emulated where there is no KVM, a node of the
share at each surrogate by a writable grant. A program at the client reads or writes one file of the
share through the service, at a steady rate; a move goes by hand-over, with the machine's memory and
its file session. Needs root.
"""

from __future__ import annotations

import http.client
import itertools
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.harness import Figure
from bench.replicas.moves import Stage, stage
from bench.shares.edge_moves import BLOCK, LOADS, Program, of_programs
from testbed.roles import Role

SERVICE, SHARE, NAME = "files", "papers", "/paper"
KINDS = ("reads", "writes")
MOVES = 3
SECONDS = 10.0
"""Before a move, and after it: an emulated machine answers a few operations a second."""

LEAD_SECONDS = 120.0
LEADS = "does what is asked from operation"
ANSWER_SECONDS = 60.0


def machine_move_figures(quick: bool) -> Iterator[Figure]:
    """Reads and writes apart, by operations a second."""
    loads, moves = (LOADS[:2], 1) if quick else (LOADS, MOVES)
    with stage(SERVICE, _share) as made, made.session("a") as port:
        places = itertools.cycle("ba")
        for kind, load in itertools.product(KINDS, loads):
            programs = []
            for _ in range(moves):
                program = Program(_MachineMoving(made, port, next(places)), kind, load, SECONDS)
                program.run()
                programs.append(program)
            yield from of_programs(f"shares, move of a machine, {kind}, {load} op/s", programs)


def _share(home: Role) -> None:
    folder = home.folder / SHARE
    folder.mkdir()
    (folder / NAME[1:]).write_bytes(os.urandom(BLOCK))
    home.command("share", "add", folder, "--name", SHARE, "--json")
    for place in "ab":
        home.command("share", "grant", SHARE, SERVICE, place, "--json")


class _MachineMoving:
    """See Moving."""

    def __init__(self, made: Stage, port: int, to: str) -> None:
        """Returns when the node where the machine is does what is asked."""
        self._made, self._port, self._to = made, port, to
        self._data = os.urandom(BLOCK)
        self.began = 0.0
        (here,) = set(made.roles.surrogates) - {to}
        log = made.roles.surrogates[here].log
        deadline = time.monotonic() + LEAD_SECONDS
        while LEADS not in log.read_text() and time.monotonic() < deadline:
            self.operate("writes", 0)

    def operate(self, kind: str, number: int) -> None:
        """Raises OSError."""
        method, body = ("GET", b"") if kind == "reads" else ("PUT", self._data)
        with ExitStack() as stack:
            link = stack.enter_context(self._made.bed.client.socket(socket.SOCK_STREAM))
            link.settimeout(ANSWER_SECONDS)
            link.connect(("127.0.0.1", self._port))
            connection = http.client.HTTPConnection("127.0.0.1", self._port)
            connection.sock = link
            try:
                connection.request(method, NAME, body)
                status = connection.getresponse().status
            except http.client.HTTPException as error:
                raise ConnectionError(f"no answer: {error}") from error
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise ConnectionError(f"{method} was answered with {status}")

    def move(self) -> None:
        self.began = time.monotonic()
        self._made.move(self._to, "handover")


__all__ = ["machine_move_figures"]
