# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home image`: service images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import images
from console import bar, json_option, show
from homeserver.cli.context import Context
from replay import adapters, agent_program
from satchel.names import check_name

if TYPE_CHECKING:
    from homeserver.services.trial import TrialVerdict

NEEDS_MORE, MUST_BE_CARRIED = 20, 21
"""Exit statuses of `try`, beyond those of errors."""


@click.group("image")
def command() -> None:
    """Service images, built from recipes."""


@command.command("build")
@click.argument("target")
@click.option("--name", default="", help="The name of the image, of a container or a disk.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key of the recipe; repeatable.",
)
@click.option("--fresh", is_flag=True, help="Ask Debian again for newer packages.")
@json_option
@click.pass_obj
def build(
    context: Context, target: str, name: str, changes: tuple[str, ...], fresh: bool, as_json: bool
) -> None:
    """Build the image of TARGET, unless it is up to date.

    TARGET is a shipped recipe's name, a folder with recipe.toml or with a Dockerfile, or the image
    of a container: oci:FOLDER, oci-archive:FILE, docker-archive:FILE, docker://REPOSITORY. Or it is
    a whole disk that starts by itself, such as a cloud image: FILE.qcow2, FILE.img, FILE.raw.
    """
    from hypervisor import QemuDriver
    from sandbox import Cells

    recipe = images.changed(images.target(target, name), changes)
    adapters.for_kind(recipe.adapter_kind)  # rather now than when its first machine starts
    with bar(f"build {recipe.name}", quiet=as_json, steps=True) as progress:
        image = images.build(
            recipe,
            context.settings.images / recipe.name,
            agent=agent_program(),
            fresh=fresh,
            cells=Cells.of(context.settings, QemuDriver()) if recipe.disk else None,
            progress=progress,
        )
    row = {"name": recipe.name, "disk": str(image.disk), "size": image.disk.stat().st_size}
    show({**row, "port": image.recipe.ready_port}, as_json=as_json)


@command.command("try")
@click.argument("name")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    help="Wait so long for the service to listen [default: 300, for a whole disk 1200].",
)
@json_option
@click.pass_context
def attempt(click_context: click.Context, name: str, seconds: float | None, as_json: bool) -> None:
    """Try whether the service of the image NAME can be replayed.

    It boots the image twice, and both machines execute the recipe's requests.

    Exits with 20 if it can be replayed once the recipe has the `needs` and the `tier` that are
    shown, and with 21 if it has to be carried. Exits with 8, and the end of the console's output,
    if it does not listen.
    """
    from homeserver.services.trial import to_json

    context: Context = click_context.obj
    image = images.BuiltImage.load(context.settings.images / check_name(name, "image"))
    verdict = tried(context, name, seconds, quiet=as_json)
    show({"name": name, **to_json(verdict)}, as_json=as_json)
    if verdict.carried and not image.recipe.carried:
        click_context.exit(MUST_BE_CARRIED)
    if verdict.needs:
        click_context.exit(NEEDS_MORE)


def tried(context: Context, name: str, seconds: float | None, *, quiet: bool) -> TrialVerdict:
    """Try the image of that name, with a bar. Raises the errors of ImageTrial."""
    from homeserver.services.trial import ImageTrial  # the other commands start without
    from hypervisor import QemuDriver
    from sandbox import Cells

    folder = context.settings.images / name
    driver, wish = QemuDriver(), context.settings.machine
    with bar(f"try {name}", quiet=quiet, steps=True) as progress:
        cells = Cells.of(context.settings, driver)
        trial = ImageTrial(folder, driver, wish, cells=cells, timeout=seconds, progress=progress)
        return trial.verdict()


@command.command("ls")
@json_option
@click.pass_obj
def ls(context: Context, as_json: bool) -> None:
    """List Satchel's recipes and your own images."""
    shipped = {recipe.name: recipe.title for recipe in images.recipes()}
    folder, rows = context.settings.images, []
    own = {path.parent.name for path in folder.glob("*/image.json")} - set(shipped)
    for name in (*shipped, *sorted(own)):
        image = _built(folder / name)
        built = image if isinstance(image, str) else "yes"
        title = shipped.get(name) or ("" if isinstance(image, str) else image.recipe.title)
        rows.append({"name": name, "title": title, "built": built})
    show(rows, as_json=as_json)


def _built(folder: Path) -> images.BuiltImage | str:
    try:
        return images.BuiltImage.load(folder)
    except images.ImageNotBuilt:
        return "no"
    except images.ImageDamaged:
        return "damaged"
