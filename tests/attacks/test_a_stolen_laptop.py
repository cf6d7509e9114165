# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A thief has the laptop, its key, and connections to home that were made before. The owner follows
docs/guide.md, "A laptop or a stick was stolen"."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from homeserver.clients import Clients, door_line
from homeserver.settings import HomeSettings
from satchel.errors import AccessError, SatchelError
from shares.node import ROOT, Buffer, Membership, Node
from testbed.sshd import Sshd
from tests.client.world import fake_image
from tests.homeserver.program import PROGRAM
from tests.homeserver.shares.test_daemon import Daemon
from tests.needs import requires
from wire import Caller, Identity, Link, Links
from wire.link.multiplex import HELLO, MAGIC, VERSION

pytestmark = requires("ssh", "sshd", "ssh-keygen")

HELLO_BYTES = HELLO.pack(MAGIC, VERSION, VERSION)
LINES = ("named", "of an earlier version")


class Home:
    """The real daemon and a real sshd, with a share, a service, and two paired clients."""

    def __init__(self, folder: Path, lines: str, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self.daemon = Daemon(folder)
        stack.callback(self.daemon.end)
        self.program = self.daemon.program
        fake_image(folder / "cache/satchel/images", "notes", stateful=True)
        self.program.json("service", "add", "notes")
        self.program.json("share", "add", self.daemon.shared)
        self.keys = {name: Identity.create(folder / name) for name in ("laptop", "phone")}
        paired = [door_line(PROGRAM, key.public, name) for name, key in self.keys.items()]
        if lines != LINES[0]:
            paired = [
                line.replace(f" --client {key.fingerprint}", "")
                for line, key in zip(paired, self.keys.values(), strict=True)
            ]
        folders = {k: v for k, v in self.program.environment.items() if k.startswith("XDG_")}
        place = folder / "sshd"
        self.sshd = stack.enter_context(Sshd.start(place, authorized=paired, environment=folders))
        self._links = stack.enter_context(Links(folder / "l"))

    def link(self, name: str) -> Link:
        return self._links.open(name, self.sshd.peer(name, self.keys[name].path, self.hosts))

    @property
    def hosts(self) -> Path:
        return self.folder / "known_hosts"

    def types(self, *words: str) -> Any:
        """Return the answer to the owner's command at home."""
        authorized = ("--authorized-keys", self.sshd.folder / "authorized_keys")
        return self.program.json(*words, *authorized)

    def ssh(self, *words: str) -> "subprocess.CompletedProcess[bytes]":
        """Run OpenSSH with the laptop's key."""
        host = self.sshd.host("laptop", self.keys["laptop"].path, self.hosts)
        known = f"UserKnownHostsFile={self.hosts}"
        options = ["-F", "none", "-i", str(host.identity), "-o", known, "-o", "BatchMode=yes"]
        argv = ["ssh", *options, "-p", str(host.port), *words, host.destination, "door"]
        return subprocess.run(argv, input=b"", capture_output=True, timeout=60, check=False)

    def idle(self) -> Path:
        """Make a connection that opens no door yet; return its control socket."""
        control = self.folder / "control"
        host = self.sshd.host("laptop", self.keys["laptop"].path, self.hosts)
        options = ["-F", "none", "-i", str(host.identity), "-o", "BatchMode=yes"]
        options += ["-o", f"UserKnownHostsFile={self.hosts}", "-p", str(host.port)]
        argv = ["ssh", "-M", "-S", str(control), "-N", "-f", *options, host.destination]
        subprocess.run(argv, check=True, timeout=60, stdin=subprocess.DEVNULL)
        return control


@pytest.fixture(params=LINES)
def home(request: pytest.FixtureRequest, short_path: Path) -> Iterator[Home]:
    with contextlib.ExitStack() as stack:
        yield Home(short_path, request.param, stack)


def claims(link: Link, client: str) -> None:
    lease = {"client": client, "take_over": False}
    link.http.post_json("/v1/services/notes/lease", lease)


def test_a_thief_loses_every_way_in(home: Home) -> None:
    laptop, phone = home.link("laptop"), home.link("phone")
    claims(laptop, "laptop")
    place = laptop.reach("shares")
    laptop.connect()
    membership = Membership(partial(Caller, place), "photos", "laptop")
    node = Node(membership.join(60), Buffer(home.folder / "n", 1 << 20), 30.0)
    node.create(ROOT, b"file", 0o644, os.O_RDWR, os.getuid(), os.getgid())
    assert [one["nodes"] for one in home.program.json("share", "ls")] == [1]
    idle = home.idle()
    first, second = home.types("clients")
    assert (first["name"], second["name"]) == ("laptop", "phone")
    assert first["key"] == home.keys["laptop"].fingerprint

    assert home.program.fails(
        2, "unpair", "laptop", "--authorized-keys", home.sshd.folder / "authorized_keys"
    )
    ended = home.types("unpair", "laptop", "--yes")
    assert ended["leases"] == ["notes"]
    assert ended["nodes"] == 1

    assert [one["nodes"] for one in home.program.json("share", "ls")] == [0]
    with pytest.raises(SatchelError):
        laptop.http.get_json("/v1/services")
    assert home.ssh().stdout == b""
    through = home.ssh("-S", str(idle))
    assert HELLO_BYTES not in through.stdout
    home.ssh("-S", str(idle), "-O", "exit")
    assert [client["name"] for client in home.types("clients")] == ["phone"]
    phone.connect()
    claims(phone, "phone")
    assert phone.http.get_json("/v1/services/notes")["lease"]["client"] == "phone"
    with pytest.raises(AccessError, match="not for paired clients"):
        phone.http.post_json("/v1/clients/ended", {"doors": []})
    membership.close()
    node.close()
    is_let_in_when_it_is_paired_again(home)


def is_let_in_when_it_is_paired_again(home: Home) -> None:
    data, key = home.folder / "data/satchel/home", home.keys["laptop"]
    assert (data / "unpaired").read_bytes() == f"{key.fingerprint} laptop\n".encode()
    settings = HomeSettings(data=data, run=home.daemon.run)
    clients = Clients(settings, home.sshd.folder / "authorized_keys")
    clients.pair(door_line(PROGRAM, key.public, "laptop"))
    assert home.ssh().stdout == HELLO_BYTES
