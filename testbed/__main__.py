# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""python -m testbed up|ls|clean: a testbed to try things in by hand."""

from __future__ import annotations

import sys
import time

import click

from console import json_option, run_program, show
from testbed import namespaces
from testbed.bed import Testbed
from testbed.topology import PROFILES, TODAY


@click.group()
def program() -> None:
    """Home, the Internet, hotspots and a client in network namespaces of this machine."""


@program.command()
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default=TODAY.name)
@click.option("--links", type=click.Choice(["auto", "tun", "netem"]), default="auto")
def up(profile: str, links: str) -> None:
    """Make a testbed, say how to use it, and take it away on Ctrl-C."""
    with Testbed(PROFILES[profile], links=links) as bed:
        click.echo(f"profile {profile}, links by {bed.maker.kind}. Run COMMAND on a host with:")
        for host in bed.hosts.values():
            click.echo(f"  {host.name:12} {host.address:10}  {' '.join(host.prefix)} COMMAND")
        click.echo("The client moves on the lines of standard input: a, b. Ctrl-C ends it.")
        _follow_moves(bed)


@program.command()
@json_option
def ls(as_json: bool) -> None:
    """Namespaces that testbeds left whose process is gone."""
    rows = [
        {"namespace": name, "processes": len(namespaces.processes([name]))}
        for name in namespaces.leftovers()
    ]
    show(rows, as_json=as_json, columns=["namespace", "processes"])


@program.command()
def clean() -> None:
    """Remove what `ls` shows, with the processes in it."""
    namespaces.require_privileges()
    for name in namespaces.clean():
        click.echo(f"removed {name}")


def _follow_moves(bed: Testbed) -> None:
    for line in sys.stdin:
        hotspot = line.strip()
        if hotspot in bed.topology.hotspots:
            bed.client.move(hotspot)
            click.echo(f"client {bed.client.address}")
        else:
            click.echo(f"no hotspot {hotspot!r}: {', '.join(bed.topology.hotspots)}")
    while True:
        time.sleep(1)


if __name__ == "__main__":
    run_program(program, "testbed")
