# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel status`: a running session."""

from __future__ import annotations

import click

from client.cli.context import Context, pass_context
from client.control import running_session
from console import json_option, show


@click.command("status")
@click.argument("service")
@json_option
@pass_context
def command(context: Context, service: str, as_json: bool) -> None:
    """Show the session of SERVICE: replicas, who answers first, what is stable."""
    status = running_session(context.settings, service).get_json("/v1/status")
    if as_json:
        show(status, as_json=True)
        return
    replicas, surrogates = status.pop("replicas"), status.pop("surrogates")
    status["divergences"] = len(status["divergences"])
    show(status, as_json=False)
    click.echo()
    for replica in replicas:
        answer = surrogates.get(replica["name"], {})
        replica["fetched_bytes"] = answer.get("fetched_bytes")
        replica["faults"] = answer.get("faults")
    show(replicas, as_json=False)
