# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A real guest fetches through home, at home and at a surrogate, and reaches nothing else there.
test_egress.py has the same with an agent on this host, in every run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from images import Recipe, build
from replay import agent_program
from replica import Replica
from testbed.built import cache_folder
from tests.client.carried import CarriedWorld, carried_world
from tests.machines import MACHINE
from tests.needs import requires

pytestmark = [pytest.mark.machine, requires(*MACHINE, "apt-get", "sshd", "ssh")]

SERVICE = "fetching"
LISTED, HIDDEN = ("127.77.0.1", 28099), ("127.77.0.1", 28100)
"""Of home's own network: what it lists by address may be reached, and its neighbour not."""

RECIPE = f"""
name = "{SERVICE}"
extends = "base"
contract = "carry"
command = "exec /usr/bin/python3 -m http.server --bind 127.0.0.1 8080"
ports = [{{ front = "http", port = 8080 }}]
egress = "home"
egress-hosts = ["{LISTED[0]}:{LISTED[1]}", "private.invalid:80"]
"""

FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=100).read().decode())
except OSError as error:
    print("not reached:", error)
"""


class Greeting(BaseHTTPRequestHandler):
    """Says what it was asked for."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"home says " + self.path.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(place: tuple[str, int]) -> Iterator[None]:
    with ThreadingHTTPServer(place, Greeting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CarriedWorld]:
    folder = tmp_path / SERVICE
    folder.mkdir()
    (folder / "recipe.toml").write_text(RECIPE)
    build(Recipe.load(folder), cache_folder() / SERVICE, agent=agent_program())
    with carried_world(SERVICE) as made:
        yield made


def fetch(replica: Replica, place: str) -> str:
    """What a program in the guest sees there."""
    return replica.run(["python3", "-c", FETCH, f"http://{place}/x"], 200.0)[1].decode().strip()


def check(replica: Replica) -> None:
    assert fetch(replica, f"{LISTED[0]}:{LISTED[1]}") == "home says /x"
    for elsewhere in (f"{HIDDEN[0]}:{HIDDEN[1]}", "192.0.2.1:80", "private.invalid:80"):
        assert fetch(replica, elsewhere).startswith("not reached:"), elsewhere


@pytest.mark.nightly
def test_a_guest_reaches_what_is_listed_through_home(world: CarriedWorld) -> None:
    with answering(LISTED), answering(HIDDEN):
        session = world.session()
        check(world.home.home.service(SERVICE).replica())
        session.move("a")
        (hosted,) = world.spots["a"].host.replicas()
        check(hosted.replica)
