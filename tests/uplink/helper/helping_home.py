# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The real `satchel-home` behind a real sshd, with a password for the service `cloud`."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.loopback import Loopback
from testbed.roles import Role
from testbed.topology import HOME
from tests.uplink.gateway.site import PASSWORD, USER, Site, WsgiDav, describe
from tests.waiting import eventually
from tests.wire.slow_link import SlowLink
from wire import Identity


@dataclass
class Helped:
    """A server, uplink before it, and home, which asks the server too. link: to home"""

    cloud: Site
    home: Role
    link: SlowLink

    def through_home(self) -> dict[str, int]:
        stats = self.cloud.ask("stats")
        return {"trees": stats["trees_from_home"], "files": stats["files_through_home"]}


@contextlib.contextmanager
def helped_site(folder: Path, user: str = USER) -> Iterator[Helped]:
    """All of it, running, with the link to home. user: whose password home has."""
    folder.chmod(0o755)
    server = WsgiDav(folder / "files", folder / "server")
    for each in (server.files, server.folder, folder / "c"):
        each.mkdir()
    describe(folder)
    password = folder / "home-password"
    password.write_text(f"{user}:{PASSWORD}\n")
    password.chmod(0o600)
    bed = Loopback()
    settings = f"""driver = "qemu"
[uplink.cloud]
url = "{server.url}"
credentials = "{password}"
"""
    home = Role(bed.host(HOME), "satchel-home", folder / "h", settings)
    identity = Identity.create(folder / "c" / "id", comment="laptop")
    cloud = Site(server, folder, service="home = true")
    with contextlib.ExitStack() as stack:
        stack.callback(bed.close)
        server.start()
        stack.callback(server.stop)
        home.command("init", "--json")
        stack.callback(home.stop)
        home.start("home.sock", [identity.public])
        peer = home.sshd.peer("home", identity.path, folder / "c" / "known_hosts")
        link = stack.enter_context(SlowLink(peer.port))
        known = Path(peer.known_hosts)
        known.write_text(known.read_text().replace(str(peer.port), str(link.port)))
        cloud.more = f"""
[home]
destination = "{peer.destination}"
port = {link.port}
identity = "{peer.identity}"
known_hosts = "{peer.known_hosts}"
"""
        cloud.start()
        stack.callback(cloud.stop)
        cloud.hold()
        assert eventually(lambda: cloud.ask("status")["home"])
        yield Helped(cloud, home, link)
