# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a person asks to have built, as a recipe: a shipped one's name, a folder with a recipe, a
folder with a Dockerfile, an image of a container, or the file of a whole disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from images.containers import dockerfile, is_reference
from images.recipe import Recipe, RecipeNotFound
from satchel import settings
from satchel.errors import UsageError
from satchel.names import NAME, check_name

DISK_SUFFIXES = (".qcow2", ".img", ".raw")
"""What the file of a whole disk ends with."""

DISK_MEMORY_MIB = 512
SSH_PORT = 22
"""What a whole disk without a recipe has, and serves: what every cloud image listens on."""

CONTAINER_DISK_MIB = 4096
"""The disk of a container's guest without a recipe; it is sparse."""

_EXTENSIONS = re.compile(r"\.(tar|oci|tar\.gz|tgz)$")


def target(text: str, name: str = "") -> Recipe:
    """The recipe of what `text` names; relative paths begin at the current folder.

    name: of the image, for what has none of its own. Raises RecipeNotFound, RecipeInvalid,
    SettingsError, UsageError.
    """
    folder = Path(text)
    if is_reference(text):
        return _contained(text, name or _name_of(text.partition(":")[2].strip("/")))
    if text.endswith(DISK_SUFFIXES):
        return _whole_disk(folder, name)
    if (folder / "recipe.toml").is_file():
        recipe = Recipe.load(folder.resolve())
    elif folder.is_dir() and dockerfile(folder):
        return _contained(str(folder.resolve()), name or _name_of(folder.resolve().name))
    elif "/" not in text:
        recipe = Recipe.find(text)
    else:
        raise RecipeNotFound(
            f"nothing to build at {text[:200]}",
            why="it has neither a recipe.toml nor a Dockerfile" if folder.is_dir() else "no folder",
            fix="name a folder with one, or an image: oci:FOLDER, docker-archive:FILE",
        )
    if name and name != recipe.name:
        raise UsageError(f"the recipe's name is {recipe.name}, and not {name}")
    return recipe


def changed(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """The recipe with keys changed, each as KEY=VALUE. Raises UsageError, SettingsError and
    RecipeInvalid."""
    return settings.changed(recipe, changes, "--set")


def _whole_disk(path: Path, name: str) -> Recipe:
    """It has no folder either: paths are as from here."""
    if not path.is_file():
        raise RecipeNotFound(f"nothing to build at {path}", why="there is no such file")
    return Recipe(
        name=check_name(name or _name_of(path.stem), "image"),
        title=path.name.replace("\n", " ")[:80],
        disk=str(path.resolve()),
        memory_mib=DISK_MEMORY_MIB,
        port=SSH_PORT,
    )


def _contained(reference: str, name: str) -> Recipe:
    """It has no folder, as nothing beside the image belongs to it."""
    return Recipe(
        name=check_name(name, "image"),
        title=reference.replace("\n", " ")[:80],
        container=reference,
        disk_mib=CONTAINER_DISK_MIB,
    )


def _name_of(text: str) -> str:
    """A name after the last part of a path or a repository, without its tag."""
    last = _EXTENSIONS.sub("", re.sub(r"[:@].*", "", text.rsplit("/", 1)[-1]))
    name = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")
    if not NAME.fullmatch(name):
        raise UsageError(f"cannot make a name of {text[:200]!r}", fix="give one with --name")
    return name
