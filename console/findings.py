# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a look at a set-up found: everything at once, each with its remedy, printed in one way."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import click

from console.output import show
from satchel.errors import StateError

Severity = Literal["fault", "warning"]
"""With a fault something does not work; with a warning it works less well, or less safely."""


@dataclass(frozen=True)
class Finding:
    """what: a clause that names the thing; remedy: what the reader can do"""

    what: str
    remedy: str
    severity: Severity = "fault"


def show_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """One line each, faults first, and its remedy below, once for those in a row that have the
    same; `nothing is missing` where there is none. In JSON a list of objects."""
    ordered = sorted(findings, key=lambda finding: finding.severity != "fault")
    if as_json:
        show([asdict(finding) for finding in ordered], as_json=True)
        return
    for remedy, alike in itertools.groupby(ordered, key=lambda finding: finding.remedy):
        for finding in alike:
            click.echo(f"{finding.severity}: {finding.what}")
        click.echo(f"    {remedy}")
    if not ordered:
        click.echo("nothing is missing")


def exit_code(findings: Sequence[Finding]) -> int:
    """0 without a fault, else that of StateError."""
    return StateError.exit_code if any(f.severity == "fault" for f in findings) else 0
