# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel whereis`: where a service is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from client.places.home import services_at_home
from client.platform.running import running_session, session_runs
from client.platform.settings import HOME, ClientSettings
from console import json_option, note, show
from media import Media, read_manifest
from satchel.errors import SatchelError
from satchel.names import check_name

COLUMNS = ("service", "where", "what", "state", "operation")


@click.command("whereis")
@click.argument("service", required=False)
@json_option
@click.pass_obj
def command(settings: ClientSettings, service: str | None, as_json: bool) -> None:
    """Say where SERVICE is, or every service.

    It lists the replicas of sessions here, checkpoints on the medium, machines at home, and the
    clients that use them. If home is out of reach it lists the rest, and the exit code says why.
    """
    if service is not None:
        check_name(service, "service")
    rows = [*_replicas(settings), *_on_medium(settings)]
    services, failed = services_at_home(settings)
    for each in services:
        rows.append(_row(each["name"], HOME, "machine", each["state"], each["last_executed"]))
        if each["client"]:
            rows.append(_row(each["name"], each["client"], "client", "in use", None))
    found = [row for row in rows if service in (None, row["service"])]
    empty = "" if failed else f"{service or 'no service'} is nowhere that this client knows"
    show(found, as_json=as_json, columns=COLUMNS, empty=empty)
    if failed:
        raise failed


def _replicas(settings: ClientSettings) -> Iterator[dict[str, Any]]:
    """Of the sessions that run here."""
    for socket in sorted(settings.run.glob("*.sock")):
        service = socket.stem
        if not session_runs(settings, service):
            continue
        try:
            replicas = running_session(settings, service).get_json("/v1/status")["replicas"]
        except SatchelError as error:
            note(f"{service}: {error}")
            continue
        for row in replicas:
            yield _row(service, row["name"], "replica", row["state"], row["operation"])


def _on_medium(settings: ClientSettings) -> Iterator[dict[str, Any]]:
    """The newest checkpoint of each service."""
    if not settings.media:
        return
    seen = set()
    try:
        with Media.open(Path(settings.media), settings.media_keys) as media:
            for checkpoint in media.checkpoints():
                if checkpoint.service not in seen:
                    seen.add(checkpoint.service)
                    manifest = read_manifest(media, checkpoint)
                    state = "whole" if checkpoint.whole else "damaged"
                    where = str(settings.media)
                    yield _row(manifest.service, where, "checkpoint", state, manifest.operation)
    except SatchelError as error:
        note(f"the medium: {error}")


def _row(service: str, where: str, what: str, state: str, operation: int | None) -> dict[str, Any]:
    return {
        "service": service,
        "where": where,
        "what": what,
        "state": state,
        "operation": operation,
    }
