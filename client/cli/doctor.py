# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel doctor`: what is missing; does a service do the same twice, and where can it run?"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from client.moves.fits import fits, reach
from client.places.home import Home
from client.platform.configuration import configuration
from client.platform.preflight import preflight
from client.platform.settings import HOME, ClientSettings
from client.session.checkpoints import candidates, verified
from console import exit_code, json_option, show, show_findings
from images import Manifest
from media import Media
from replay import Log, encode_operations
from satchel.errors import IntegrityError, UnavailableError, UnsupportedError, UsageError
from satchel.ids import OperationNumber
from satchel.names import check_name
from wire import Links

DIFFERS = IntegrityError.exit_code


@click.command("doctor")
@click.argument("service", required=False)
@click.option(
    "--media",
    type=click.Path(path_type=Path, file_okay=False),
    help="Use the log on this medium [default: home's log].",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Only ask that surrogate whether it can run SERVICE's machine; repeatable.",
)
@click.option(
    "--choices",
    is_flag=True,
    help="With --host: say it for each choice that a recipe has.",
)
@json_option
@click.pass_context
def command(
    context: click.Context,
    service: str | None,
    media: Path | None,
    hosts: tuple[str, ...],
    choices: bool,
    as_json: bool,
) -> int:
    """Report missing parts, or whether replicas of SERVICE agree.

    Without SERVICE, it reports everything that is missing, each with its remedy: keys, host keys,
    connections, the medium, signers. Exits with 4 if something does not work.

    With SERVICE, it finds the first operation that replicas answer differently. Home plays its log
    on two fresh replicas. It reports the likely cause with its evidence. Exits with 6 if they
    differ, and with 3 if the log is empty. For a carried service, home visits each port of a fresh
    copy and reports when it answered. Exits with 8 if one did not.

    With --host, it reports instead whether these surrogates can run SERVICE's newest checkpoint at
    home, or with --media the one on the medium. For each it names the accelerator, or the reason
    and an alternative. Exits with 10 if one cannot, and with 8 if one does not answer.

    With --choices it also does so for three kinds of machine: portable, for KVM only, for emulation
    only.
    """
    settings = context.obj
    assert isinstance(settings, ClientSettings)
    if service is None:
        if media or hosts or choices:
            raise UsageError("it is not said which service is meant", fix="name SERVICE as well")
        findings = preflight(settings, configuration(context).path)
        show_findings(findings, as_json=as_json)
        return exit_code(findings)
    check_name(service, "service")
    if choices:
        return _choices(settings, service, media, hosts, as_json=as_json)
    if hosts:
        return _hosts(settings, service, media, hosts, as_json=as_json)
    records = _logged(settings, media, service) if media else b""
    with Links(settings.run / "l" / f"doctor-{os.getpid()}") as links:
        home = links.open(HOME, settings.require_home())
        path = f"/v1/services/{service}/doctor"
        report = json.loads(home.http.post_bytes(path, records, timeout=None))
    if as_json:
        show(report, as_json=True)
    else:
        _tell(report)
    if report["differs"]:
        return DIFFERS
    silent = any(port["seconds"] is None for port in report["ports"])
    return UnavailableError.exit_code if silent else 0


def _hosts(
    settings: ClientSettings,
    service: str,
    media: Path | None,
    hosts: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    found = fits(settings, _newest(settings, service, media).machine, hosts)
    if as_json:
        show([asdict(fit) for fit in found], as_json=True)
    else:
        for fit in found:
            click.echo(str(fit))
    if any(fit.runs is False for fit in found):
        return UnsupportedError.exit_code
    return 0 if all(fit.runs for fit in found) else UnavailableError.exit_code


def _choices(
    settings: ClientSettings,
    service: str,
    media: Path | None,
    hosts: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    if not hosts:
        raise UsageError("it is not said which surrogates to ask", fix="name each with --host")
    found = reach(settings, _newest(settings, service, media).machine, hosts)
    if as_json:
        show(
            {choice: [asdict(fit) for fit in those] for choice, those in found.items()},
            as_json=True,
        )
    else:
        for choice, those in found.items():
            click.echo(choice)
            for fit in those:
                click.echo(f"  {fit}")
    silent = any(fit.runs is None for those in found.values() for fit in those)
    return UnavailableError.exit_code if silent else 0


def _newest(settings: ClientSettings, service: str, media: Path | None) -> Manifest:
    """The checkpoint that a session would go on from, as far as its owner signed it."""
    signers = settings.allowed_signers
    if media:
        with Media.open(media, settings.media_keys) as opened:
            return candidates(service, [opened], None, signers)[0].manifest
    with Links(settings.run / "l" / f"doctor-{os.getpid()}") as links:
        link = links.open(HOME, settings.require_home())
        home = Home(link, service, "doctor", settings.media_keys)
        return verified(service, *home.checkpoint(), HOME, signers)


def _logged(settings: ClientSettings, media: Path, service: str) -> bytes:
    with Media.open(media, settings.media_keys) as opened:
        path, secret = opened.log_path(service), opened.log_secret(service)
    with Log.open(path, read_only=True, secret=secret) as log:
        return encode_operations(log.read(OperationNumber(log.first - 1)))


def _tell(report: dict[str, Any]) -> None:
    if report["ports"]:
        _tell_ports(report)
        return
    first, last = report["first_operation"], report["last_operation"]
    click.echo(f"operations {first} to {last} from checkpoint {report['checkpoint'][:12]}")
    differs = report["differs"]
    if differs is None:
        click.echo("two fresh replicas answered all of them alike")
        return
    click.echo(f"operation {differs['operation']} differs: {differs['request']}")
    click.echo(f"likely cause: {differs['cause']}: {differs['evidence']}")
    for which in ("first", "second"):
        click.echo(f"--- {which}\n{differs[which]}")


def _tell_ports(report: dict[str, Any]) -> None:
    checkpoint, seconds = report["checkpoint"][:12], report["resumed_seconds"]
    click.echo(f"a copy of checkpoint {checkpoint} ran after {seconds:.1f} s")
    for port in report["ports"]:
        after = port["seconds"]
        found = f"did not answer: {port['why']}" if after is None else f"answered in {after:.2f} s"
        click.echo(f"port {port['port']} ({port['front']}) {found}")
