# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What one use of each program says to cloud storage: bytes both ways, counted between the real
program and a WebDAV server on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.uplink.world import PASSWORD, USER, server_argv, write_rclone
from satchel.errors import SatchelError
from testbed import await_up

FILE = 300_000
"""Bytes of a file that a program writes: a photograph made smaller, or a document."""

PROPFIND = ("-X", "PROPFIND", "-H", "Depth: 0")
"""What Nextcloud's desktop client repeats while nothing has changed."""


@dataclass(frozen=True)
class UseTraffic:
    """Bytes of one use."""

    up: int
    down: int


class Relay:
    """Leads from a port of its own to the server's, and counts."""

    def __init__(self, port: int) -> None:
        self._there = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._counts, self._guard = [0, 0], threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self) -> UseTraffic:
        """What was said since the last time."""
        with self._guard:
            said, self._counts = UseTraffic(*self._counts), [0, 0]
            return said

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._there))
                for way in ((near, far, 0), (far, near, 1)):
                    threading.Thread(target=self._pass, args=way, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, which: int) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                with self._guard:
                    self._counts[which] += len(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def recorded() -> dict[str, UseTraffic]:
    """A use of each, by name. Raises SatchelError where a program fails or is not there."""
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name, _server(Path(name)) as relay:
        folder = Path(name)
        url = f"http://127.0.0.1:{relay.port}/dav"
        write_rclone(folder, {"cloud": url})
        content = folder / "content"
        said = {}
        for use in ("rclone", "davfs2", "person"):
            content.write_bytes(os.urandom(FILE))
            if use == "rclone":
                config = ["--config", str(folder / "rclone.conf")]
                _run("rclone", *config, "copyto", str(content), "cloud:photo")
            elif use == "davfs2":
                _through_davfs2(folder, url, content)
            else:
                _run("curl", "-sf", "-u", f"{USER}:{PASSWORD}", "-o", os.devnull, f"{url}/photo")
            said[use] = relay.take()
        _run("curl", "-sf", "-u", f"{USER}:{PASSWORD}", "-o", os.devnull, *PROPFIND, f"{url}/")
        said["nextcloud"] = relay.take()
        return said


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[Relay]:
    (folder / "files").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    log = folder / "server.log"
    with log.open("wb") as said:
        process = subprocess.Popen(server_argv(folder, port), stdout=said, stderr=said)
    relay = Relay(port)
    try:
        await_up("the WebDAV server", process, lambda: _listens(port), log)
        yield relay
    finally:
        relay.close()
        process.terminate()
        process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _through_davfs2(folder: Path, url: str, content: Path) -> None:
    """Its file system is mounted, has a file written, and is unmounted, when all is uploaded."""
    secrets, settings, mounted = folder / "secrets", folder / "davfs2.conf", folder / "mounted"
    secrets.write_text(f"{url} {USER} {PASSWORD}\n")
    secrets.chmod(0o600)
    settings.write_text(f"secrets {secrets}\nuse_locks 0\n")
    mounted.mkdir()
    _run("mount.davfs", url, str(mounted), "-o", f"conf={settings}")
    try:
        (mounted / "document").write_bytes(content.read_bytes())
    finally:
        _run("umount", str(mounted))


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SatchelError(f"{argv[0]} cannot be recorded", why=str(error)) from error
    if done.returncode != 0:
        raise SatchelError(f"{argv[0]} failed", why=done.stderr[-300:])


if __name__ == "__main__":
    print(recorded(), file=sys.stderr)
