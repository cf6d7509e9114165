# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel log`: does this device have operations that home has differently?"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from client.places.home import Home
from client.platform.running import only_session
from client.platform.settings import HOME, ClientSettings
from client.session.checkpoints import verified
from client.session.split_log import LogReport, compare_logs
from console import json_option, show
from replay import adapters
from satchel.errors import ConflictError, UnsupportedError
from satchel.names import check_name
from wire import Links

SHOWN = 20
"""Operations of a log that a person is shown; `--json` has all."""


@click.command("log")
@click.argument("service")
@click.option(
    "--media",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder where the medium is mounted [default: the settings' media].",
)
@click.option(
    "--drop",
    is_flag=True,
    help="Move the operations that part from home's into a log beside.",
)
@json_option
@click.pass_obj
def command(
    settings: ClientSettings, service: str, media: Path | None, drop: bool, as_json: bool
) -> int:
    """Compare the logs of SERVICE here with home's.

    If two clients used SERVICE without knowing of each other, their logs part, and home's counts.
    The command lists the operations that --drop drops. Exits with 5 if some are left.
    """
    check_name(service, "service")
    settings.make_folders()
    place = media or (Path(settings.media) if settings.media else None)
    with ExitStack() as opened:
        if drop:
            opened.enter_context(only_session(settings, service))
        links = opened.enter_context(Links(settings.run / "l" / f"log-{os.getpid()}"))
        link = links.open(HOME, settings.require_home())
        home = Home(link, service, settings.client_id, settings.media_keys)
        manifest = verified(service, *home.checkpoint(), HOME, settings.allowed_signers)
        if not manifest.contract.stateful:
            raise UnsupportedError(
                f"{service} has no log of operations", why="its operations are not replayed"
            )
        label = adapters.for_kind(manifest.contract.adapter).label
        reports = compare_logs(settings, home, place, label, drop=drop)
    if as_json:
        show([asdict(report) for report in reports], as_json=True)
    else:
        for report in reports:
            _tell(report, service)
        if not reports:
            click.echo(f"no log of {service} is here")
    parted = any(report.state == "parted" and not report.kept for report in reports)
    return ConflictError.exit_code if parted else 0


def _tell(report: LogReport, service: str) -> None:
    which = f"operations {report.first} to {report.last}"
    if report.first > report.last:
        which = "no operations"
    states = {
        "as at home": "home has them",
        "unsent": "home lacks the last ones, and gets them from the next session",
        "dropped": "dropped from a log that parted from home's",
        "parted": f"{len(report.lost)} of them are only here, and home has others",
    }
    click.echo(f"{report.log}: {which}: {states[report.state]}")
    for one in report.lost[:SHOWN]:
        moment = datetime.fromtimestamp(one.time_ns / 1e9).astimezone()
        click.echo(f"  {one.number}  {moment:%Y-%m-%d %H:%M:%S}  {one.request}")
    if len(report.lost) > SHOWN:
        click.echo(f"  and {len(report.lost) - SHOWN} more")
    if report.kept:
        click.echo(f"  dropped; they stay in {report.kept}")
    elif report.state == "parted":
        click.echo(f"  `satchel log {service} --drop` drops them, and keeps them in a log beside")
