# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A site whose service has a name and a certificate of an authority of the system's: in a mount
namespace of the test's own, where /etc/hosts and the system's store are the test's."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.uplink.gateway.site import Site, WsgiDav

SERVICE, STRANGER = "cloud.test", "other.test"


class NamedWsgiDav(WsgiDav):
    """At https://cloud.test, and under the stranger's name."""

    @property
    def url(self) -> str:
        return f"https://{SERVICE}:{self.port}/dav"

    def more(self) -> dict[str, object]:
        return {
            "ssl_certificate": str(self.folder / "server.pem"),
            "ssl_private_key": str(self.folder / "server.key"),
            "ssl_adapter": "builtin",
        }


@dataclass
class NamedSite(Site):
    @property
    def system(self) -> Path:
        """What the system trusts."""
        return self.folder / "system"

    @property
    def elsewhere(self) -> str:
        """The server under a name that no service has."""
        return self.server.url.replace(SERVICE, STRANGER)

    @property
    def there(self) -> list[str]:
        """Before a command: in the mount namespace."""
        binds = f"mount --bind {self.folder}/hosts /etc/hosts"
        binds += f"; mount --bind {self.system} /etc/ssl/certs"
        script = f'{binds}; exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh"]

    @property
    def satchel(self) -> list[str]:
        return [*self.there, *super().satchel]


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def make_authority(folder: Path, system: Path) -> None:
    """The system's store with one authority, and a certificate of the server's by it."""
    system.mkdir()
    bundle = system / "ca-certificates.crt"
    new = ("req", "-nodes", "-newkey", "rsa:2048", "-days", "2")
    _openssl(
        *(*new, "-x509", "-subj", "/CN=the test's authority"),
        *("-keyout", str(folder / "ca.key"), "-out", str(bundle)),
    )
    _openssl(
        *(*new, "-x509", "-CA", str(bundle), "-CAkey", str(folder / "ca.key")),
        *("-subj", "/CN=server", "-addext", f"subjectAltName=DNS:{SERVICE},DNS:{STRANGER}"),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
        *("-keyout", str(folder / "server.key"), "-out", str(folder / "server.pem")),
    )
    (system / "authority.pem").write_bytes(bundle.read_bytes())
    _openssl("rehash", str(system))


@contextlib.contextmanager
def named_site(folder: Path, settings: str = "") -> Iterator[NamedSite]:
    """All of it, running; it lets nothing go before it is told to."""
    files, own = folder / "files", folder / "server"
    for each in (files, own):
        each.mkdir()
    server = NamedWsgiDav(files, own)
    made = NamedSite(server, folder, settings=settings)
    make_authority(own, made.system)
    (folder / "hosts").write_text(f"127.0.0.1 localhost {SERVICE} {STRANGER}\n")
    try:
        server.start()
        made.start()
        made.hold()
        yield made
    finally:
        made.stop()
        server.stop()
