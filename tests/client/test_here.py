# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A known surrogate is found by its host key at the address that it announces, over a real sshd;
an unknown one is offered. tests/attacks has false announcements."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from client.places.here import SurrogatesHere
from client.platform.settings import ClientSettings
from satchel.errors import UnavailableError
from testbed.plain_door import plain_door
from testbed.sshd import Sshd
from tests.needs import requires
from wire import Announcement, Authority, DiscoveredSurrogate, Identity, Links, Peer, authority_line

pytestmark = requires("ssh", "sshd")


def announced(sshd: Sshd, *keys: str, name: str = "cafe", port: int = 0) -> DiscoveredSurrogate:
    said = Announcement(name, port or sshd.port, price="free", keys=keys)
    return DiscoveredSurrogate(said, (sshd.address,))


class Cafe:
    """The surrogate that client.toml has at a port where nothing listens any more."""

    def __init__(self, folder: Path, *, certified: bool) -> None:
        self.folder = folder
        self.key = Identity.create(folder / "me")
        options = self.certify() if certified else []
        start = partial(
            Sshd.start,
            folder / "sshd",
            authorized=[self.key.public],
            door=plain_door(folder),
            options=options,
        )
        self.sshd = start()
        known_hosts = folder / "known_hosts"
        self.peer = self.sshd.peer("cafe", self.key.path, known_hosts)
        self.announces = self.sshd.host_key.fingerprint
        if certified:
            authority = Authority.open(folder / "authority").hosts
            line = authority_line("127.0.0.1", self.sshd.port, authority.public)
            known_hosts.write_text(f"{line}\n")
            self.announces = authority.fingerprint
        self.sshd.stop()
        self.sshd = start(address="127.0.0.2")

    def certify(self) -> list[str]:
        key = Identity.create(self.folder / "host_key")
        line = Authority.create(self.folder / "authority").certify_host(key.public, ["127.0.0.1"])
        (self.folder / "host_key-cert.pub").write_text(f"{line}\n")
        return [f"HostKey {key.path}", f"HostCertificate {key.path}-cert.pub"]

    def settings(self, **values: str) -> ClientSettings:
        return ClientSettings(surrogates={"cafe": self.peer}, **values)  # type: ignore[arg-type]


@pytest.fixture(params=[False, True], ids=["its key", "its site's authority"])
def cafe(short_path: Path, request: pytest.FixtureRequest) -> Iterator[Cafe]:
    made = Cafe(short_path, certified=request.param)
    yield made
    made.sshd.stop()


def test_links_go_where_a_known_surrogate_is_announced(cafe: Cafe, short_path: Path) -> None:
    here = SurrogatesHere(cafe.settings(), short_path / "here")
    told: list[str] = []
    with Links(short_path / "l", reached=here.reached) as links:
        with pytest.raises(UnavailableError):
            links.open("cafe", cafe.peer)
        here.look([announced(cafe.sshd)], told.append)  # an announcement of version 1
        assert here.status() == {"found": [], "offers": []}
        here.look([announced(cafe.sshd, "SHA256:other", cafe.announces)], told.append)
        links.open("cafe", cafe.peer)
        assert links.get("cafe", cafe.peer).answers()
        here.look([announced(cafe.sshd, cafe.announces)], told.append)
        assert told == [f"cafe is at 127.0.0.2 port {cafe.sshd.port} now, by its host key"]
        (row,) = here.status()["found"]
        assert row == {"surrogate": "cafe", "address": "127.0.0.2", "port": cafe.sshd.port}
        assert here.reached(Peer("me@127.0.0.1")).host == "127.0.0.1"  # another one
        here.look([], told.append)
        assert here.reached(cafe.peer) is cafe.peer
    here.close()


def test_one_that_answers_where_it_is_written_stays_there(short_path: Path) -> None:
    cafe = Cafe(short_path, certified=False)
    try:
        settings = ClientSettings(
            surrogates={"cafe": cafe.sshd.peer("cafe", cafe.key.path, short_path / "known")}
        )
        here = SurrogatesHere(settings, short_path / "here")
        with Sshd.start(short_path / "sshd", authorized=[cafe.key.public]) as other:
            here.look([announced(other, cafe.announces)], list[str]().append)
        assert here.status()["found"] == []
    finally:
        cafe.sshd.stop()


def test_an_unknown_surrogate_is_offered_once_and_only_when_asked(short_path: Path) -> None:
    cafe = Cafe(short_path, certified=False)
    try:
        told: list[str] = []
        other = announced(cafe.sshd, "SHA256:other", name="pub", port=9)
        for auto, offers in (("known", 0), ("off", 0), ("ask", 1)):
            here = SurrogatesHere(cafe.settings(auto=auto), short_path / "here")
            here.look([other, announced(cafe.sshd, cafe.announces)], told.append)
            told = [line for line in told if "pair" in line]
            here.look([other], told.append)
            assert len(here.status()["offers"]) == len(told) == offers
        assert "calls itself pub (free)" in told[0]
        assert "`satchel pair CODE --at 127.0.0.2`" in told[0]
        here.look([], told.append)
        assert here.status()["offers"] == []
        many = [announced(cafe.sshd, name="x", port=port) for port in range(1, 200)]
        here.look(many, told.append)
        assert len(here.status()["offers"]) <= 16
    finally:
        cafe.sshd.stop()
