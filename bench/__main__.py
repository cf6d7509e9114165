# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""python -m bench NAME: prints a JSON line about the host, then one for each figure."""

from __future__ import annotations

import click

from bench.harness import BENCHES, figures_of
from bench.host import this_host
from console import run_program


@click.command()
@click.argument("name", metavar="|".join(sorted(BENCHES)) + "[.PART]")
@click.option("--quick", is_flag=True, help="Small inputs, one round: for development.")
def program(name: str, *, quick: bool) -> int:
    """Measure one thing: a JSON line with the host's rates, then one for each figure.

    Exits with 1 if a goal is missed.
    """
    figures = figures_of(name, quick=quick)
    click.echo(this_host(quick=quick).to_json())
    status = 0
    for figure in figures:
        click.echo(figure.to_json())
        status |= figure.holds is False
    return status


if __name__ == "__main__":
    run_program(program, "bench")
