# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate ls`: the replicas here."""

from __future__ import annotations

import click

from console import json_option, show
from surrogate.cli.daemon import operator_status
from surrogate.settings import SurrogateSettings

COLUMNS = ("replica", "service", "state", "last_operation", "fetched_bytes")


@click.command("ls")
@json_option
@click.pass_obj
def command(settings: SurrogateSettings, as_json: bool) -> None:
    """List the replicas on this surrogate, of all clients."""
    replicas = operator_status(settings)["replicas"]
    show(replicas, as_json=as_json, columns=COLUMNS, empty="no replica runs here")
