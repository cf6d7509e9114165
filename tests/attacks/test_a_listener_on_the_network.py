# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""An attacker on the same network announces surrogates, and reads packets in clear."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from client.places.here import SurrogatesHere
from client.places.nearby import nearby
from client.platform.settings import ClientSettings
from homeserver.settings import HomeSettings
from satchel.settings import SettingsError, load
from testbed.plain_door import plain_door
from testbed.sshd import Sshd
from tests.needs import requires
from wire import Announcement, DiscoveredSurrogate, Identity, Links, Peer


def test_has_nothing_connect_to_an_address_that_he_announces() -> None:
    with socket.create_server(("127.0.0.1", 0)) as victim:
        port = victim.getsockname()[1]
        announced = DiscoveredSurrogate(Announcement("cafe", port), ("127.0.0.1",))
        (row,) = nearby(ClientSettings(), [announced])
        assert (row.name, row.known, row.round_trip_seconds) == ("cafe", None, None)
        victim.settimeout(0.2)
        with pytest.raises(TimeoutError):
            victim.accept()
        known = ClientSettings(surrogates={"corner": Peer("me@127.0.0.1", port=port)})
        (row,) = nearby(known, [announced])
        assert row.known == "corner"
        assert row.round_trip_seconds is not None


@requires("ssh", "sshd")
def test_who_copies_a_fingerprint_ends_at_the_host_key(short_path: Path) -> None:
    """His sshd lets everybody in. This client does not log in, and tries him once."""
    key = Identity.create(short_path / "me")
    with Sshd.start(short_path / "cafe", authorized=[key.public]) as cafe:
        peer = cafe.peer("cafe", key.path, short_path / "known_hosts")
        copied = cafe.host_key.fingerprint
    here = SurrogatesHere(ClientSettings(surrogates={"cafe": peer}), short_path / "here")
    door, told = plain_door(short_path), list[str]()
    with Sshd.start(short_path / "his", authorized=[key.public], door=door) as his:
        announced = Announcement("cafe", his.port, keys=(copied,))
        for _ in range(3):
            here.look([DiscoveredSurrogate(announced, ("127.0.0.1",))], told.append)
        said = (his.folder / "sshd.log").read_text()
    assert (said.count("Connection from"), "Accepted" in said) == (1, False)
    assert (here.reached(peer), told, here.status()["found"]) == (peer, [], [])


@requires("ssh")
def test_who_copies_a_fingerprint_has_few_addresses_tried(short_path: Path) -> None:
    key = Identity.create(short_path / "me")
    known_hosts = short_path / "known_hosts"
    peer = Peer("me@127.9.9.9", 1, key.path, known_hosts)
    known_hosts.write_text(f"[127.9.9.9]:1 {key.public}\n")
    here = SurrogatesHere(ClientSettings(surrogates={"cafe": peer}), short_path / "here")
    asked: list[str] = []
    with socket.create_server(("0.0.0.0", 0)) as victims:

        def refuse() -> None:
            with suppress(OSError):
                while True:
                    connection = victims.accept()[0]
                    asked.append(connection.getsockname()[0])
                    connection.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        announced = Announcement("cafe", victims.getsockname()[1], keys=(key.fingerprint,))
        every = [f"127.0.{n}.1" for n in range(1, 41)]
        for _ in range(2):
            here.look([DiscoveredSurrogate(announced, (at,)) for at in every], list[str]().append)
        victims.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert len(asked) == len(set(asked)) == 15  # and the written one
    with Links(short_path / "l", reached=here.reached) as links:
        assert not links.get("cafe", peer).alive


@pytest.mark.parametrize("kind", [HomeSettings, ClientSettings])
def test_reads_no_password_of_cloud_storage(
    kind: type[HomeSettings | ClientSettings], tmp_path: Path
) -> None:
    table = "uplink.cloud" if kind is HomeSettings else "uplink.services.cloud"
    file = tmp_path / "x.toml"

    def reads(url: str, more: str = "") -> HomeSettings | ClientSettings:
        file.write_text(f'[{table}]\nurl = "{url}"\ncredentials = "/secret"\n{more}')
        return load(kind, file)

    for url in ("http://cloud.example/dav", "http://nas.example/", "http://127.0.0.1.nip.example/"):
        with pytest.raises(SettingsError, match="would be sent in clear"):
            reads(url)
        reads(url, "unencrypted = true\n")
    for url in ("https://cloud.example/dav", "http://127.0.0.1:8080/", "http://[::1]/dav"):
        reads(url)
