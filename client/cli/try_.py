# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel try`: the whole story on this machine."""

from __future__ import annotations

import importlib

import click

from console import json_option

TESTBED = "testbed.trial"
"""Stands beside the programs, which run without it: so it is not imported before it is wanted."""


@click.command("try")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Local port for a browser [default: a free one].",
)
@click.option("--once", is_flag=True, help="End after the story.")
@json_option
def command(port: int, once: bool, as_json: bool) -> None:
    """See it all on this machine: home, surrogates, a move.

    A notebook is built, booted at a home, and put onto a stick, which is a folder here. It is used
    at a surrogate, moved to another one, and back. It needs no root and no settings. Each step says
    how long it may take. Ctrl-C ends it and removes everything but the built image.
    """
    importlib.import_module(TESTBED).play(port, once=once, as_json=as_json)
