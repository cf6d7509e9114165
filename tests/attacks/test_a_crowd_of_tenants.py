# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Tenants that hold connections and doors and do nothing with them; another one wants to be served.

The daemon is `satchel-surrogate serve` as an operator starts it at a terminal: with the soft limit
of 1,024 descriptors that Linux gives.
"""

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from satchel.errors import SatchelError
from surrogate.operator import credentials
from tests.waiting import eventually
from wire import HttpClient

SOFT_LIMIT = 1024
PROGRAM = str(Path(sys.executable).parent / "satchel-surrogate")


class Spot:
    """A surrogate, and what its operator's door does for a tenant."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "run"
        (folder / "satchel").mkdir()
        settings = f'data = "{folder / "data"}"\nrun = "{self.run}"\ncell = "off"\n'
        settings += "cell-off-as-root = true\nallow-emulation = true\n"
        (folder / "satchel" / "surrogate.toml").write_text(settings)
        self.environment = os.environ | {"XDG_CONFIG_HOME": str(folder)}
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.daemon = subprocess.Popen(
                ["/bin/sh", "-c", f"ulimit -Sn {SOFT_LIMIT}; exec {PROGRAM} serve"],
                env=self.environment,
                stderr=log,
            )
        assert eventually(self.answers, 60.0), self.log.read_text()

    def answers(self) -> bool:
        with contextlib.suppress(SatchelError, OSError):
            return self.admit("first").exists()
        return False

    def admit(self, identity: str) -> Path:
        with HttpClient(self.run / "surrogate.sock") as client:
            headers = credentials(self.run) | {"Content-Type": "application/json"}
            body = json.dumps({"identity": identity}).encode()
            answer = client.request("POST", "/v1/tenants", body=body, headers=headers, timeout=10.0)
        return Path(json.loads(answer.body)["socket"])

    def served(self, identity: str) -> float:
        """Seconds until a tenant that comes now has an answer."""
        began = time.monotonic()
        with HttpClient(self.admit(identity)) as client:
            client.get_json("/v1/status", timeout=10.0)
        return time.monotonic() - began

    def door(self, guest: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """A door of that guest's, and the end at which its link would be."""
        ours, theirs = socket.socketpair()
        with theirs:
            door = subprocess.Popen(
                [PROGRAM, "door", "--guest", guest],
                env=self.environment,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
            )
        return door, ours


@pytest.fixture
def spot(short_path: Path) -> Iterator[Spot]:
    made = Spot(short_path)
    yield made
    made.daemon.terminate()
    assert made.daemon.wait(60) in (0, 130)


def test_idle_connections_of_sixty_tenants_silence_nobody(spot: Spot) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with contextlib.ExitStack() as held:
        for count, wanted in ((31, "ann"), (60, "bob")):
            for number in range(count):
                place = spot.admit(f"idle{number}")
                for _ in range(40 if count == 31 or number >= 31 else 0):
                    one = held.enter_context(socket.socket(socket.AF_UNIX))
                    one.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        one.connect(str(place))
            time.sleep(1.0)
            assert spot.served(wanted) < 5.0
            assert spot.served("idle0-other") < 5.0


def test_a_guest_has_so_many_doors_and_hears_that(spot: Spot) -> None:
    """sshd passes a door's message on to the link."""
    with contextlib.ExitStack() as held:

        def opened(guest: str) -> tuple[subprocess.Popen[bytes], socket.socket, bool]:
            """A door, its link, and whether it says hello."""
            door, link = spot.door(guest)
            held.enter_context(door)
            held.enter_context(link)
            link.settimeout(15.0)
            return door, link, link.recv(4) == b"SDOR"

        doors = [opened("greedy") for _ in range(10)]
        refused = [door for door, _, hello in doors if not hello]
        assert len(refused) == 2
        for door in refused:
            assert b"tenant.doors" in door.communicate()[1]
        assert opened("honest")[2]
        door, link, _ = next(one for one in doors if one[2])
        link.close()
        door.wait(30)
        assert opened("greedy")[2], "an ended door's place is free"


def test_no_more_tenants_than_descriptors_are_admitted(spot: Spot) -> None:
    with pytest.raises(SatchelError, match="serves no more tenants"):
        for number in range(200):
            spot.admit(f"t{number}")
    assert number >= 60
