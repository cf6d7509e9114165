# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whoever reaches the port says what he likes; programs beside him are answered."""

import socket
from contextlib import suppress
from pathlib import Path

from tests.http_rules import assert_rules_hold
from tests.needs import requires
from tests.uplink.gateway.recording import recorded
from tests.uplink.gateway.site import Site
from tests.uplink.gateway.test_holding import put

pytestmark = requires("curl")

JUNK = (
    b"\x00\x01\x02\x03\r\n\r\n",
    b"GET",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /cloud/ HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 100_000,
    b"PUT /cloud/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\nshort",
    b"PUT /cloud/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"PUT /cloud/a HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"PROPFIND /cloud/ HTTP/1.1\r\nHost: 127.0.0.1\r\nDepth: 1\r\nContent-Length: 5\r\n\r\n<!DOC",
    b"GET /cloud/../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic !\r\n\r\n",
    b"GET http://127.0.0.1/nobody/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
)


def test_junk_ends_one_connection_and_holds_nothing(cloud: Site) -> None:
    for junk in JUNK:
        with socket.create_connection(("127.0.0.1", cloud.port)) as connection:
            connection.settimeout(60)
            with suppress(ConnectionError):
                connection.sendall(junk)
                with suppress(OSError):  # it may be refused and gone by now
                    connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
    assert cloud.states() == {}
    assert list(cloud.server.files.iterdir()) == []
    cloud.list_folder()
    assert put(cloud, "a", b"content") == 201
    assert cloud.states() == {"held": 1}


def test_each_rule_of_http_holds_at_the_port(short_path: Path) -> None:
    with recorded(short_path) as (port, came):
        assert_rules_hold(port, "/cloud/", lambda: len(came))
