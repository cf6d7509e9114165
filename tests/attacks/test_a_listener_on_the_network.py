# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""An attacker on the same network announces surrogates, and reads packets in clear."""

import socket
from pathlib import Path

import pytest

from client.moves.nearby import nearby
from client.platform.settings import ClientSettings
from homeserver.settings import HomeSettings
from satchel.settings import SettingsError, load
from wire import Announcement, DiscoveredSurrogate, Peer


def test_has_nothing_connect_to_an_address_that_he_announces() -> None:
    with socket.create_server(("127.0.0.1", 0)) as victim:
        port = victim.getsockname()[1]
        announced = DiscoveredSurrogate(Announcement("cafe", port), "127.0.0.1")
        (row,) = nearby(ClientSettings(), [announced])
        assert (row.name, row.known, row.round_trip_seconds) == ("cafe", None, None)
        victim.settimeout(0.2)
        with pytest.raises(TimeoutError):
            victim.accept()
        known = ClientSettings(surrogates={"corner": Peer("me@127.0.0.1", port=port)})
        (row,) = nearby(known, [announced])
        assert row.known == "corner"
        assert row.round_trip_seconds is not None


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
