# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate end`: the operator ends a replica."""

from __future__ import annotations

from urllib.parse import quote

import click

from console import json_option, show
from surrogate.cli.daemon import as_operator
from surrogate.settings import SurrogateSettings


@click.command("end")
@click.argument("replica")
@json_option
@click.pass_obj
def command(settings: SurrogateSettings, replica: str, as_json: bool) -> None:
    """End REPLICA, as `ls` names it. Its client continues with home or brings up another one."""
    as_operator(settings, "DELETE", f"/v1/replicas/{quote(replica, safe='')}")
    show({"ended": replica}, as_json=as_json)
