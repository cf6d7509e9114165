# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate status`: the host and its room."""

from __future__ import annotations

import click

from console import json_option, show
from surrogate.cli.daemon import operator_status
from surrogate.settings import SurrogateSettings


def _machines(runs: list[str], lacking: dict[str, str]) -> str:
    """What it runs of strangers' machines, and what it lacks for more."""
    under = " or ".join(runs) if runs else "none"
    return "; ".join([under, *(f"{name} lacks {why}" for name, why in lacking.items())])


@click.command("status")
@json_option
@click.pass_obj
def command(settings: SurrogateSettings, as_json: bool) -> None:
    """Show what this surrogate has room for."""
    status = operator_status(settings)
    if not as_json:
        status = {"machines": _machines(status.pop("runs"), status.pop("lacking")), **status}
        status["replicas"] = len(status["replicas"])
        for kind in ("memory", "disk"):
            space = status.pop(kind)
            status[f"{kind}_free_bytes"] = space["free"]
            status[f"{kind}_total_bytes"] = space["total"]
    show(status, as_json=as_json)
