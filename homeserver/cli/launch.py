# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home launch`: a first-class replica."""

from __future__ import annotations

import click

from console import json_option, show
from homeserver.cli.context import Context


@click.command("launch")
@click.argument("service")
@json_option
@click.pass_obj
def command(context: Context, service: str, as_json: bool) -> None:
    """Run SERVICE at home, from its newest checkpoint if any."""
    answer = context.daemon().post_json(f"/v1/services/{service}/launch", {}, timeout=None)
    show(answer, as_json=as_json)
