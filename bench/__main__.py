# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""python -m bench NAME: prints the figures of a bench, one JSON line each."""

from __future__ import annotations

import click

from bench.harness import BENCHES, figures_of
from console import run_program


@click.command()
@click.argument("name", metavar="|".join(sorted(BENCHES)) + "[.PART]")
@click.option("--quick", is_flag=True, help="Small inputs, one round: for development.")
def program(name: str, *, quick: bool) -> int:
    """Measure one thing: a JSON line for each figure. Exits with 1 if a goal is missed."""
    status = 0
    for figure in figures_of(name, quick=quick):
        click.echo(figure.to_json())
        status |= figure.holds is False
    return status


if __name__ == "__main__":
    run_program(program, "bench")
