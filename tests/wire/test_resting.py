# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A link that rests says nothing, and the first request afterwards costs what any request does.

Round trips are counted by a relay that knows nothing of what passes; see tests/round_trips.py.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import flask
import pytest

from satchel.errors import SatchelError
from testbed.plain_door import plain_door
from testbed.sshd import Sshd
from tests.needs import requires
from tests.round_trips import RoundTrips, through
from tests.waiting import eventually
from wire import Identity, Link, Links, Peer, install_errors, serve

pytestmark = requires("ssh", "sshd")


@dataclass
class Far:
    """A daemon beyond a link that counts. door: what its sshd runs"""

    trips: RoundTrips
    peer: Peer
    sshd: Sshd
    links: Links

    def hops(self, link: Link) -> int:
        before = self.trips.hops
        assert link.http.get_json("/name") == ["far"]
        return self.trips.hops - before


@pytest.fixture
def far(short_path: Path) -> Iterator[Far]:
    app = flask.Flask("daemon")
    install_errors(app)
    app.get("/name")(lambda: ["far"])
    key = Identity.create(short_path / "me")
    with ExitStack() as stack:
        server = serve(app, short_path / "api", threads=2, max_body=1000)
        stack.callback(server.close)
        sshd = Sshd.start(
            short_path / "sshd",
            authorized=[key.public],
            door=plain_door(short_path),
            options=["ClientAliveInterval 0"],
        )
        stack.callback(sshd.stop)
        trips = stack.enter_context(RoundTrips(("127.0.0.1", sshd.port)))
        peer = through(trips, sshd.peer("far", key.path, short_path / "known_hosts"))
        links = stack.enter_context(Links(short_path / "l"))
        yield Far(trips, peer, sshd, links)


def test_a_rest_costs_no_round_trip(far: Far) -> None:
    link = far.links.open("far", far.peer)
    connections = far.trips.connections
    used = min(far.hops(link) for _ in range(3))
    assert used == 2
    found = []
    for _ in range(3):
        link.rest()
        time.sleep(1.0)
        link.connect()
        found.append(far.hops(link))
    assert min(found) == used
    assert far.trips.connections == connections


def test_a_new_connection_costs_what_openssh_takes_and_one_round_trip(far: Far) -> None:
    """What anybody's command over ssh costs, and what the door's hello and a request do."""
    argv = ["ssh", "-F", "none", "-T", "-p", str(far.peer.port), "-i", str(far.peer.identity)]
    known = ["-o", f"UserKnownHostsFile={far.peer.known_hosts}", "-o", "BatchMode=yes"]
    before = far.trips.hops
    subprocess.run([*argv, *known, far.peer.destination, "x"], stdin=subprocess.DEVNULL, check=True)
    plain, before = far.trips.hops - before, far.trips.hops
    link = far.links.open("far", far.peer)
    assert link.http.get_json("/name") == ["far"]
    ours = far.trips.hops - before
    assert ours <= plain + 2


def test_a_link_that_rests_says_nothing_and_stays(far: Far) -> None:
    far.trips.steps = False
    link = far.links.open("far", far.peer)
    assert link.http.get_json("/name") == ["far"]
    time.sleep(8)
    assert len(far.trips.said) > 0
    link.rest()
    time.sleep(1)
    said = len(far.trips.said)
    time.sleep(12)  # longer than a link in use bears silence
    assert len(far.trips.said) == said
    assert link.alive
    link.connect()
    assert link.http.get_json("/name") == ["far"]
    assert far.trips.connections == 1


def test_a_link_in_use_says_beats(far: Far) -> None:
    far.trips.steps = False
    far.links.open("far", far.peer)
    time.sleep(1)
    said = len(far.trips.said)
    assert eventually(lambda: len(far.trips.said) >= said + 3)


def test_a_connection_that_was_forgotten_on_the_way_is_made_anew(far: Far) -> None:
    far.trips.steps = False
    link = far.links.open("far", far.peer)
    assert link.http.get_json("/name") == ["far"]
    link.rest()
    time.sleep(1)
    far.trips.forget()
    link.connect()

    def answers() -> bool:
        with suppress(SatchelError):
            return bool(link.http.get_json("/name") == ["far"])
        return False

    assert eventually(answers)
    assert far.trips.connections == 2
