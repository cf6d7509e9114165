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

from bench import Figure, replicas
from papers.mefs.edge_moves import BLOCK, LOADS, Program, of_programs
from satchel.errors import UnavailableError
from testbed import roles

SERVICE, SHARE, NAME = "files", "papers", "/paper"
KINDS = ("reads", "writes")
MOVES = 3
SECONDS = 10.0
"""Before a move, and after it: an emulated machine answers a few operations a second."""

LEAD_SECONDS = 120.0
LEADS = b"does what is asked from operation"
ANSWER_SECONDS = 60.0


def machine_move_figures(quick: bool) -> Iterator[Figure]:
    """Reads and writes apart, by operations a second."""
    loads, moves = (LOADS[:2], 1) if quick else (LOADS, MOVES)
    with replicas.stage(SERVICE, _share) as made, made.session("a") as port:
        machine = _Machine(made, port)
        for kind, load in itertools.product(KINDS, loads):
            programs = []
            for _ in range(moves):
                machine.await_lead()
                program = Program(machine, kind, load, SECONDS)
                program.run()
                programs.append(program)
            yield from of_programs(f"shares, move of a machine, {kind}, {load} op/s", programs)


def _share(home: roles.Role) -> None:
    folder = home.folder / SHARE
    folder.mkdir()
    (folder / NAME[1:]).write_bytes(os.urandom(BLOCK))
    home.command("share", "add", folder, "--name", SHARE, "--json")
    for place in "ab":
        home.command("share", "grant", SHARE, SERVICE, place, "--json")


class _Machine:
    """See MovableSession; it moves as often as it is told to, each time to the other surrogate."""

    def __init__(self, made: replicas.Stage, port: int) -> None:
        """It is at surrogate a."""
        self._made, self._port = made, port
        self._here, self._next = "a", "b"
        self._logged = 0
        """Bytes of the log of the surrogate where it is, from before it came."""
        self._data = os.urandom(BLOCK)
        self.began = 0.0

    def await_lead(self) -> None:
        """Returns when the node where the machine is does what is asked. Raises UnavailableError.
        It asks for that when its guest is asked something, so this writes."""
        log = self._made.roles.surrogates[self._here].log
        deadline = time.monotonic() + LEAD_SECONDS
        while LEADS not in log.read_bytes()[self._logged :]:
            if time.monotonic() > deadline:
                raise UnavailableError(f"the node at {self._here} does not lead", why=f"see {log}")
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
        self._here, self._next = self._next, self._here
        self._logged = self._made.roles.surrogates[self._here].log.stat().st_size
        self._made.move(self._here, "handover")


__all__ = ["machine_move_figures"]
