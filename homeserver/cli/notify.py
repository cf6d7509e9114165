# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home notify`: open problems, and a test of the channels."""

from __future__ import annotations

import click

from console import json_option, note, show
from homeserver.cli.context import Context
from satchel.errors import NotFoundError, UnavailableError


@click.group("notify")
def command() -> None:
    """Notices of problems at home.

    They go to the places that `notify` in home.toml names.
    """


@command.command("ls")
@json_option
@click.pass_obj
def listed(context: Context, as_json: bool) -> None:
    """List the open problems."""
    rows = context.daemon().get_json("/v1/notices")
    show(rows, as_json=as_json, empty="home knows of no problem")


@command.command("test")
@json_option
@click.pass_obj
def test(context: Context, as_json: bool) -> None:
    """Send a test notice by each way of the setting `notify`."""
    sent = context.daemon().post_json("/v1/notices/test", {}, timeout=None)
    if not sent:
        raise NotFoundError(
            "home.toml names no place for notices",
            fix='write notify = ["desktop"], or a mailto: or https:// place, and start home again',
        )
    show([{"place": place, "failed": why} for place, why in sent.items()], as_json=as_json)
    failed = [place for place, why in sent.items() if why]
    if failed:
        raise UnavailableError("a notice did not arrive", why=", ".join(failed))
    note("each took it")
