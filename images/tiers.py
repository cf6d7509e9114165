# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A built image as it would be with another contract or tier of determinism, without what it was
built from."""

from __future__ import annotations

import dataclasses
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from images.built import BuiltImage, remove_others, write_manifest
from images.contract import CARRY, Contract
from images.filesystem import copy_sparse, read_file, replace_file
from images.recipe import WITHOUT_VDSO, Recipe, Tier

SERVICE_PATH = "/etc/satchel/service"
_GIVEN = ("environment=LD_PRELOAD=", "environment=SATCHEL_STANDS=", "asked=", "streams=")

TIERS: Mapping[Tier, tuple[str, ...]] = {
    "preload": ("time", "monotonic", "randomness"),
    "notifier": ("time", "randomness"),
}
"""By what a service may be given time and randomness of the log, the cheapest first, and of these
as much as it can be given: the timers of a program that calls the kernel itself must come due."""


def tiered(image: BuiltImage, folder: Path, tier: Tier) -> BuiltImage:
    """A copy of the image in `folder`, whose service has all that this tier gives.

    The folder is made, and is complete when this returns. Raises CapacityError, and
    FileSystemBroken for an image without an agent's description of its service.
    """
    kernel, initrd = image.kernel, image.initrd
    assert kernel and initrd, "what starts from its disk is carried"
    folder.mkdir()
    for path in (kernel, initrd):
        shutil.copyfile(path, folder / path.name)
    recipe = dataclasses.replace(image.recipe, needs=TIERS[tier], tier=tier)
    copy = dataclasses.replace(image, kernel=folder / kernel.name, initrd=folder / initrd.name)
    made = _described(copy, folder / image.disk.name, recipe)
    write_manifest(folder, made)
    return made


def decided(image: BuiltImage, contract: Contract, tier: Tier | None = None) -> BuiltImage:
    """The image, changed in its place to that contract and to all that the tier gives; without one
    it needs what it needed, and a carried service nothing.

    If this is interrupted the old image is there. Raises the errors of `tiered`, RecipeInvalid.
    """
    recipe, needs = image.recipe, () if contract == CARRY else image.recipe.needs
    recipe = dataclasses.replace(recipe, contract=contract, needs=TIERS[tier] if tier else needs)
    recipe = dataclasses.replace(recipe, tier=tier or recipe.tier)
    folder = image.disk.parent
    made = dataclasses.replace(image, recipe=recipe)
    if not image.firmware:
        made = _described(image, folder / f"disk-{secrets.token_hex(6)}", recipe)
        with made.disk.open("rb") as file:
            os.fsync(file.fileno())
    write_manifest(folder, made)
    remove_others(folder, made)
    return made


def _described(image: BuiltImage, disk: Path, recipe: Recipe) -> BuiltImage:
    """The image of that recipe with a copy of its disk, whose agent has the recipe's description of
    the service. Its folder says nothing of it yet."""
    copy_sparse(image.disk, disk)
    lines = [f"{line}\n" for line in read_file(disk, SERVICE_PATH).decode().split("\n")[:-1]]
    lines = [line for line in lines if not line.startswith(_GIVEN)]
    wanted = [f"{line}\n" for line in (recipe.streams_line(), *recipe.given()) if line]
    first = next((n for n, row in enumerate(lines) if row.startswith("environment=")), len(lines))
    text = disk.with_suffix(".service")
    text.write_text("".join([*lines[:first], *wanted, *lines[first:]]), encoding="utf-8")
    replace_file(disk, SERVICE_PATH, text)
    text.unlink()
    cmdline = recipe.cmdline(" ".join(w for w in image.cmdline.split() if w != WITHOUT_VDSO))
    return dataclasses.replace(image, recipe=recipe, disk=disk, cmdline=cmdline)
