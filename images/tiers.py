# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A built image as it would be with another tier of determinism, without what it was built from."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path

from images.built import BuiltImage, write_manifest
from images.filesystem import copy_sparse, read_file, replace_file
from images.recipe import Tier

SERVICE_PATH = "/etc/satchel/service"
_GIVEN = ("environment=LD_PRELOAD=", "environment=SATCHEL_STANDS=", "asked=")
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
    recipe = dataclasses.replace(image.recipe, needs=TIERS[tier], tier=tier)
    copy = dataclasses.replace(
        image,
        recipe=recipe,
        disk=folder / image.disk.name,
        kernel=folder / kernel.name,
        initrd=folder / initrd.name,
        cmdline=recipe.cmdline(image.cmdline),
    )
    for path in (kernel, initrd):
        shutil.copyfile(path, folder / path.name)
    copy_sparse(image.disk, copy.disk)
    lines = [f"{line}\n" for line in read_file(copy.disk, SERVICE_PATH).decode().split("\n")[:-1]]
    lines = [line for line in lines if not line.startswith(_GIVEN)]
    wanted = [f"{line}\n" for line in recipe.given()]
    first = next((n for n, row in enumerate(lines) if row.startswith("environment=")), len(lines))
    text = folder / "service"
    text.write_text("".join([*lines[:first], *wanted, *lines[first:]]), encoding="utf-8")
    replace_file(copy.disk, SERVICE_PATH, text)
    text.unlink()
    write_manifest(folder, copy)
    return copy
