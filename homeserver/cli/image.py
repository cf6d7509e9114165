# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home image`: service images."""

from __future__ import annotations

import click

import images
from console import bar, json_option, show
from homeserver.cli.context import Context, pass_context
from replay import agent_program


@click.group("image")
def group() -> None:
    """Service images, built from recipes."""


@group.command("build")
@click.argument("name")
@json_option
@pass_context
def build(context: Context, name: str, as_json: bool) -> None:
    """Build the image NAME from its recipe, unless it is there and up to date."""
    recipe = images.Recipe.find(name)
    with bar(f"build {name}", quiet=as_json) as progress:
        image = images.build(
            recipe, context.settings.images / name, agent=agent_program(), progress=progress
        )
    show(
        {"name": name, "disk": str(image.disk), "size": image.disk.stat().st_size}, as_json=as_json
    )


@group.command("ls")
@json_option
@pass_context
def ls(context: Context, as_json: bool) -> None:
    """List recipes, and which of them are built."""
    rows = []
    for recipe in images.recipes():
        folder = context.settings.images / recipe.name
        rows.append({"name": recipe.name, "title": recipe.title, "built": folder.is_dir()})
    show(rows, as_json=as_json)
