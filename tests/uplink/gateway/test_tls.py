# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The service's TLS is verified by uplink; programs have nothing to install."""

from pathlib import Path

from tests.needs import requires
from tests.uplink.gateway.site import SecureWsgiDav, site

pytestmark = requires("curl", "openssl")


def test_a_service_that_a_named_certificate_vouches_for_is_used(short_path: Path) -> None:
    named = f'certificates = "{short_path / "server" / "certificate.pem"}"'
    with site(short_path, SecureWsgiDav, service=named) as cloud:
        (cloud.server.files / "a").write_bytes(b"content")
        assert b"/cloud/a" in cloud.list_folder()
        assert cloud.curl(path="/a") == (200, b"content")


def test_a_service_that_nobody_vouches_for_gets_no_password(short_path: Path) -> None:
    with site(short_path, SecureWsgiDav) as cloud:
        status, said = cloud.curl("-X", "PROPFIND", "-H", "Depth: 1")
        assert status == 502
        assert b"certificate" in said
        assert cloud.server.requests("PROPFIND") == []
