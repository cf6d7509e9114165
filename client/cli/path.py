# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel path`: the surrogates that are visited one after the other."""

from __future__ import annotations

import click

from client.platform.settings import ClientSettings
from client.state.paths import Paths
from console import json_option, show


@click.group("path")
def command() -> None:
    """Set the places that you are going to.

    The next surrogate then fetches a service's data before you arrive. Without a path, Satchel
    expects you at your usual next place.
    """


@command.command("add")
@click.argument("surrogates", nargs=-1, required=True)
@json_option
@click.pass_obj
def add(settings: ClientSettings, surrogates: tuple[str, ...], as_json: bool) -> None:
    """Remember that SURROGATES are visited in this order. The newest path goes before others."""
    for name in surrogates:
        settings.surrogate(name)
    Paths(settings.state).add(surrogates)
    show({"added": " ".join(surrogates)}, as_json=as_json)


@command.command("ls")
@json_option
@click.pass_obj
def ls(settings: ClientSettings, as_json: bool) -> None:
    """List the paths, the newest last."""
    rows = [{"path": " ".join(path)} for path in Paths(settings.state).all()]
    empty = "no path is known: `satchel path add SURROGATE SURROGATE` says where you go next"
    show(rows, as_json=as_json, columns=("path",), empty=empty)


@command.command("rm")
@click.argument("surrogates", nargs=-1, required=True)
@json_option
@click.pass_obj
def rm(settings: ClientSettings, surrogates: tuple[str, ...], as_json: bool) -> None:
    """Forget the path of SURROGATES."""
    Paths(settings.state).remove(surrogates)
    show({"removed": " ".join(surrogates)}, as_json=as_json)
