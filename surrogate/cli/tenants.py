# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate tenants`: who was admitted here."""

from __future__ import annotations

import click

from console import json_option, show
from surrogate.cli.daemon import as_operator
from surrogate.settings import SurrogateSettings

COLUMNS = (
    "identity",
    "replicas",
    "memory_mib",
    "vcpus",
    "connections",
    "overlay_bytes",
    "cache_bytes",
    "day_bytes",
)


@click.group("tenants", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show the admitted guests, with their usage. Banned ones come last."""
    if context.invoked_subcommand is not None:
        return
    told = as_operator(context.obj, "GET", "/v1/tenants")
    if as_json:
        show(told, as_json=True)
        return
    empty = "nobody was admitted: `satchel-surrogate admit` shows a guest what to type"
    show(told["tenants"], as_json=False, columns=COLUMNS, empty=empty)
    for identity in told["banned"]:
        click.echo(f"banned: {identity}")


@command.command("end")
@click.argument("tenant")
@json_option
@click.pass_obj
def end(settings: SurrogateSettings, tenant: str, as_json: bool) -> None:
    """End all that TENANT has here, and cut its connections. It may come again."""
    as_operator(settings, "POST", "/v1/tenants/end", identity=tenant)
    show({"ended": tenant}, as_json=as_json)


@command.command("ban")
@click.argument("tenant")
@json_option
@click.pass_obj
def ban(settings: SurrogateSettings, tenant: str, as_json: bool) -> None:
    """End all that TENANT has here, and admit it no more. It need not have been here."""
    as_operator(settings, "POST", "/v1/tenants/ban", identity=tenant)
    show({"banned": tenant}, as_json=as_json)


@command.command("unban")
@click.argument("tenant")
@json_option
@click.pass_obj
def unban(settings: SurrogateSettings, tenant: str, as_json: bool) -> None:
    """Admit TENANT again."""
    as_operator(settings, "POST", "/v1/tenants/unban", identity=tenant)
    show({"unbanned": tenant}, as_json=as_json)
