# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A mobile with uplink and unmodified programs, and a WebDAV server, with a mobile link between."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import processors
from satchel.errors import SatchelError, UnsupportedError
from testbed import Host, Link, Shape, await_up, links, measure
from uplink.policy import built_in_descriptions

RATE = 6_000_000
ROUND_TRIP = 0.07
"""Bit/s in both directions, and seconds: LTE as StoArranger and Huang et al. took it."""

SERVER_PORT, UPLINK_PORT = 8080, 8034
USER, PASSWORD = "me", "secret"


@dataclass(frozen=True)
class World:
    """files: of the server; direct, through: addresses of it for a program on the mobile"""

    mobile: Host
    link: Link
    files: Path
    folder: Path
    direct: str
    through: str

    @property
    def satchel(self) -> list[str]:
        """The command `satchel uplink` with the mobile's settings."""
        return _satchel(self.folder)

    def bytes(self) -> int:
        """Whole IP packets that the link has carried, both ways."""
        return sum(counter.bytes for counter in self.link.counters().values())

    def seconds(self, *argv: str) -> float:
        """How long a program takes on the mobile. Raises SatchelError where it fails."""
        began = time.monotonic()
        done = self.mobile.run([*argv])
        taken = time.monotonic() - began
        if done.returncode != 0:
            raise SatchelError(f"{argv[0]} failed", why=str(done.stderr)[-300:])
        return taken


@contextlib.contextmanager
def world(fresh: float, *, secure: bool = False) -> Iterator[World]:
    """Start everything, and end it after the block.

    fresh: seconds for which uplink gives cached content without asking the server. secure: the
    server speaks TLS with the certificate `server.pem` of the folder. Raises SatchelError if a part
    does not start.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-bench-")))
        maker = links.TunLinks()
        stack.callback(maker.close)
        pair = stack.enter_context(measure.pair(maker))
        shape = Shape(rate=RATE, delay=ROUND_TRIP / 2, queue=links.queue_for(RATE))
        pair.link.shape(up=shape, down=shape)
        processors.give([pair.core], [pair.leaf])
        (folder / "files").mkdir()
        address = f"http{'s' if secure else ''}://{measure.CORE}:{SERVER_PORT}/dav"
        argv = server_argv(folder, secure=secure)
        _start(stack, pair.core, "the WebDAV server", argv, folder / "server.log")
        argv = _uplink(folder, address, fresh, secure=secure)
        _start(stack, pair.leaf, "uplink", argv, folder / "uplink.log", UPLINK_PORT)
        through = f"http://127.0.0.1:{UPLINK_PORT}/cloud"
        yield World(pair.leaf, pair.link, folder / "files", folder, address, through)


def _start(
    stack: contextlib.ExitStack,
    host: Host,
    what: str,
    argv: list[str],
    log: Path,
    port: int = SERVER_PORT,
) -> None:
    process = host.popen(argv, log=log)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    probe = [
        "bash",
        "-c",
        f"exec 3<>/dev/tcp/{host.address if port == SERVER_PORT else '127.0.0.1'}/{port}",
    ]
    await_up(what, process, lambda: host.run(probe).returncode == 0, log)


def server_argv(folder: Path, port: int = SERVER_PORT, *, secure: bool = False) -> list[str]:
    """WsgiDAV with the folder `files` there. secure: with TLS, and a certificate in `folder`"""
    config = folder / "wsgidav.json"
    users = {USER: {"password": PASSWORD}}
    fields = {
        "host": "0.0.0.0",
        "port": port,
        "provider_mapping": {"/dav": str(folder / "files")},
        "simple_dc": {"user_mapping": {"*": users}},
        "http_authenticator": {"accept_digest": False, "default_to_digest": False},
        "verbose": 1,
        **(_certified(folder) if secure else {}),
    }
    config.write_text(json.dumps(fields))
    return [str(Path(sys.executable).with_name("wsgidav")), "-c", str(config)]


def _certified(folder: Path) -> dict[str, str]:
    key, certificate = folder / "server.key", folder / "server.pem"
    words = ["-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=server"]
    words += ["-addext", f"subjectAltName=IP:{measure.CORE}"]
    words += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *words], check=True, capture_output=True)
    return {
        "ssl_certificate": str(certificate),
        "ssl_private_key": str(key),
        "ssl_adapter": "builtin",
    }


def _uplink(folder: Path, address: str, fresh: float, *, secure: bool) -> list[str]:
    descriptions = folder / "descriptions"
    descriptions.mkdir()
    text = built_in_descriptions()["webdav"]
    changed = text.replace("fresh = 30", f"fresh = {fresh:g}")
    (descriptions / "webdav.toml").write_text(changed)
    lines = [f'{key} = "{folder / key}"' for key in ("data", "state", "run")]
    lines += ["[uplink]", f"port = {UPLINK_PORT}", f'descriptions = "{descriptions}"']
    lines += [f'state = "{folder / "spool"}"', f'cache = "{folder / "cache"}"']
    lines += ["[uplink.services.cloud]", f'url = "{address}"']
    if secure:
        lines.append(f'certificates = "{folder / "server.pem"}"')
    config = folder / "client.toml"
    config.write_text("\n".join(lines) + "\n")
    return [*_satchel(folder), "serve"]


def _satchel(folder: Path) -> list[str]:
    return [sys.executable, "-m", "client", "--config", str(folder / "client.toml"), "uplink"]


def write_rclone(folder: Path, remotes: dict[str, str]) -> None:
    """Its settings, `rclone.conf`, with the addresses of its remotes."""
    said = subprocess.run(
        ["rclone", "obscure", PASSWORD], check=False, capture_output=True, text=True
    )
    if said.returncode != 0:
        raise UnsupportedError("cannot write rclone's settings", why="rclone is not installed")
    lines = []
    for name, url in remotes.items():
        lines += [f"[{name}]", "type = webdav", f"url = {url}", f"user = {USER}"]
        lines += [f"pass = {said.stdout.strip()}"]
    (folder / "rclone.conf").write_text("\n".join(lines) + "\n")
