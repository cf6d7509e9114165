# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The sockets on which other commands of this client reach its mounts.

GET  /v1/status      what `satchel share status` shows
POST /v1/offloaded   a task went elsewhere: paths, a list below the share or null for all
POST /v1/returned    it came back: likewise
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import flask

from client.platform.settings import ClientSettings
from satchel.errors import SatchelError, UnavailableError, UsageError
from satchel.typed import Form, TypeMismatch
from shares.mount import Journals, MountedShare, mount_key
from shares.node import OffloadReport
from wire import HttpClient, Server, install_errors, serve

CONTROL_THREADS = 2
MAX_BODY = 1 << 20
SWITCH_SECONDS = 600.0
"""For which home may take what was written."""


@dataclass(frozen=True)
class _Paths:
    paths: list[str] | None


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

    @app.post("/v1/offloaded")
    def offloaded() -> Any:
        return _switch(mounted.offloaded)

    @app.post("/v1/returned")
    def returned() -> Any:
        return _switch(mounted.returned)

    place = control(settings, mounted.mountpoint)
    place.unlink(missing_ok=True)  # a killed mount's: two cannot be at one folder
    return serve(app, place, threads=CONTROL_THREADS, max_body=MAX_BODY)


def _switch(switch: Callable[[list[str] | None], OffloadReport]) -> dict[str, Any]:
    try:
        said = Form().typed(flask.request.get_json(silent=True), _Paths, "the paths")
        return asdict(switch(said.paths))
    except TypeMismatch as error:
        raise UsageError("a mount expects paths", why=str(error)) from error
    except OSError as error:
        raise UnavailableError("the files are not switched", why=str(error)) from error


def tell_mounts(
    settings: ClientSettings, event: str, share: str | None, paths: list[str] | None
) -> list[dict[str, Any]]:
    """Have the mounts of this client, or those of the share, told of a task. event: `offloaded` or
    `returned`. What each of them did; a mount that does not answer is left out. Raises what the
    mount says."""
    told = []
    for place in settings.mount_sockets:
        client = HttpClient(place, peer="the mount")
        try:
            about = client.get_json("/v1/status")
        except SatchelError:
            continue  # it was killed
        if share in (None, about["share"]):
            done = client.post_json(f"/v1/{event}", {"paths": paths}, timeout=SWITCH_SECONDS)
            told.append({name: about[name] for name in ("share", "mountpoint")} | done)
    return told


def mounts(settings: ClientSettings) -> Iterator[dict[str, Any]]:
    """The status of every mount of this client that answers."""
    for place in settings.mount_sockets:
        try:
            yield HttpClient(place, peer="the mount").get_json("/v1/status")
        except SatchelError:
            continue  # it was killed


def left_behind(settings: ClientSettings) -> list[dict[str, Any]]:
    """The status of each mount that has ended and of which home does not have everything."""
    return [row | {"home": "unmounted"} for row in journals(settings).status()]


def mount_row(status: dict[str, Any]) -> dict[str, Any]:
    """A mount in one row: how far home is behind in all of its files. bytes; seconds: at most."""
    if "folder" in status:
        return status | {"buffered": 0, "conflicts": 0}
    files = status["files"]
    return {
        "share": status["share"],
        "mountpoint": status["mountpoint"],
        "home": _home(status),
        "files": len(files),
        "blocks": sum(file["home_is_behind_blocks"] for file in files),
        "bytes": sum(file["home_is_behind_bytes"] for file in files),
        "seconds": max((file["home_is_behind_seconds"] for file in files), default=0.0),
        "buffered": status["buffered_blocks"],
        "conflicts": len(status["conflicts"]),
    }


def _home(status: dict[str, Any]) -> str:
    if status.get("parked"):
        return "parked"
    return "connected" if status["connected"] else "not reached"


def mount_rows(settings: ClientSettings) -> list[dict[str, Any]]:
    """A row for each mount of this client, those included that have ended and are not at home."""
    return [mount_row(status) for status in (*mounts(settings), *left_behind(settings))]
