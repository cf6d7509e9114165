# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Servers that tell what has changed."""

import base64
import urllib.request

from tests.uplink.gateway.site import PASSWORD, USER, DavServer, WsgiDav

CARD = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:{uid}\r\nFN:{name}\r\nN:{name};;;;\r\nEND:VCARD\r\n"
BOOK = (
    b'<mkcol xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:carddav"><set><prop>'
    b"<resourcetype><collection/><C:addressbook/></resourcetype></prop></set></mkcol>"
)


class Radicale(DavServer):
    """A public server of address books, each a folder with sync-collection (RFC 6578)."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{USER}"

    def argv(self) -> list[str]:
        (self.folder / "users").write_text(f"{USER}:{PASSWORD}\n")
        config = self.folder / "radicale.conf"
        config.write_text(
            f"""[server]
hosts = 127.0.0.1:{self.port}
[auth]
type = htpasswd
htpasswd_filename = {self.folder}/users
htpasswd_encryption = plain
[storage]
filesystem_folder = {self.files}
[logging]
level = info
"""
        )
        return ["radicale", "--config", str(config)]

    def requests(self, method: str) -> list[str]:
        words = f"{method} request for"
        return [line for line in self.log.read_text().splitlines() if words in line]

    def make_book(self, name: str) -> None:
        self._ask("MKCOL", name + "/", BOOK)

    def write(self, name: str, person: str) -> None:
        card = CARD.format(uid=name.replace("/", "-"), name=person)
        self._ask("PUT", name, card.encode(), "text/vcard")

    def delete(self, name: str) -> None:
        self._ask("DELETE", name, b"")

    def _ask(self, method: str, name: str, body: bytes, kind: str = "application/xml") -> None:
        token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {token}", "Content-Type": kind}
        place = f"{self.url}/{name}"
        request = urllib.request.Request(place, data=body, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=60):
            pass


class PropagatingWsgiDav(WsgiDav):
    """WsgiDAV whose folders have another etag when anything below them has changed, as Nextcloud's
    have: no registry has a Nextcloud server."""

    def more(self) -> dict[str, object]:
        provider = {
            "class": "tests.uplink.gateway.propagating.PropagatingProvider",
            "args": [str(self.files)],
        }
        return {"provider_mapping": {"/dav": provider}}
