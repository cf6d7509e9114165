# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The sockets on which other commands of this client reach its mounts.

GET  /v1/status   what `satchel share status` shows
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flask

from client.settings import ClientSettings
from satchel.errors import SatchelError
from shares.mount import Journals, MountedShare, mount_key
from wire import HttpClient, Server, install_errors, serve

CONTROL_THREADS = 2
MAX_BODY = 1 << 16


def control(settings: ClientSettings, mountpoint: Path) -> Path:
    """Where the mount at that folder answers."""
    return settings.run / f"mount-{mount_key(mountpoint)}.sock"


def journals(settings: ClientSettings) -> Journals:
    """What this client's mounts keep until home has it."""
    return Journals(settings.state / "shares", settings.home.destination)


def serve_mount(settings: ClientSettings, mounted: MountedShare) -> Server:
    """Answer for it until the server is closed."""
    app = flask.Flask("satchel-mount", static_folder=None)
    install_errors(app)

    @app.get("/v1/status")
    def status() -> Any:
        return mounted.status()

    place = control(settings, mounted.mountpoint)
    place.unlink(missing_ok=True)  # a killed mount's: two cannot be at one folder
    return serve(app, place, threads=CONTROL_THREADS, max_body=MAX_BODY)


def mounts(settings: ClientSettings) -> Iterator[dict[str, Any]]:
    """The status of every mount of this client that answers."""
    for place in sorted(settings.run.glob("mount-*.sock")):
        try:
            yield HttpClient(place, peer="the mount").get_json("/v1/status")
        except SatchelError:
            continue  # it was killed
