# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home schedule`: the regular tasks of home."""

from __future__ import annotations

import click

from console import json_option, show
from homeserver.cli.context import Context

COLUMNS = ("task", "last", "ok", "said", "next")


@click.command("schedule")
@click.option("--run", "task", metavar="TASK", help="Run this task now.")
@json_option
@click.pass_obj
def command(context: Context, task: str | None, as_json: bool) -> None:
    """List the regular tasks of home, with their times.

    home.toml says how often: checkpoint_minutes, verify_days, prune_days.
    """
    if task is not None:
        body = {"task": task}
        show(context.daemon().post_json("/v1/schedule/run", body, timeout=None), as_json=as_json)
        return
    show(context.daemon().get_json("/v1/schedule"), as_json=as_json, columns=COLUMNS)
