# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Service images for demo, benchmarks and tests, built once.

They are in the folder that SATCHEL_TEST_CACHE names, by default build/images of the repository, so
that a cache outside of a clean clone can be used. `python -m testbed.built NAME...` builds some. It
needs the network and no root: do it before a testbed is made, whose hosts reach only each other.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from console import bar, run_program
from images import BuiltImage, Recipe, build
from replay import agent_program
from satchel.progress import Progress, silent

ROOT = Path(__file__).resolve().parent.parent


def cache_folder() -> Path:
    """One folder per image, and `layers`."""
    return Path(os.environ.get("SATCHEL_TEST_CACHE") or ROOT / "build" / "images")


def built_image(name: str, progress: Progress = silent) -> BuiltImage:
    """The image of a shipped recipe, built now if it is not there or not up to date."""
    folder = cache_folder() / name
    return build(Recipe.find(name), folder, agent=agent_program(), progress=progress)


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def program(names: tuple[str, ...]) -> None:
    """Build the images of these shipped services, unless they are there and up to date."""
    for name in names:
        with bar(f"build image {name}", steps=True) as progress:
            built_image(name, progress)


if __name__ == "__main__":
    run_program(program, "testbed.built")
