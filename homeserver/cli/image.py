# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home image`: service images."""

from __future__ import annotations

from pathlib import Path

import click

import images
from console import bar, json_option, show
from homeserver.cli.context import Context
from replay import adapters, agent_program


@click.group("image")
def command() -> None:
    """Service images, built from recipes."""


@command.command("build")
@click.argument("name")
@click.option("--fresh", is_flag=True, help="Ask Debian again for newer packages.")
@json_option
@click.pass_obj
def build(context: Context, name: str, fresh: bool, as_json: bool) -> None:
    """Build the image NAME, unless it is there and up to date."""
    recipe = images.Recipe.find(name)
    adapters.for_kind(recipe.adapter_kind)  # rather now than when its first machine starts
    with bar(f"build {name}", quiet=as_json, steps=True) as progress:
        image = images.build(
            recipe,
            context.settings.images / name,
            agent=agent_program(),
            fresh=fresh,
            progress=progress,
        )
    show(
        {"name": name, "disk": str(image.disk), "size": image.disk.stat().st_size}, as_json=as_json
    )


@command.command("ls")
@json_option
@click.pass_obj
def ls(context: Context, as_json: bool) -> None:
    """List the recipes, and which of them are built."""
    rows = []
    for recipe in images.recipes():
        built = _built(context.settings.images / recipe.name)
        rows.append({"name": recipe.name, "title": recipe.title, "built": built})
    show(rows, as_json=as_json)


def _built(folder: Path) -> str:
    try:
        images.BuiltImage.load(folder)
    except images.ImageNotBuilt:
        return "no"
    except images.ImageDamaged:
        return "damaged"
    return "yes"
