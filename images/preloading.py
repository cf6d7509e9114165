# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A built image as it would be with other `needs`, without what it was built from."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from images.built import BuiltImage, write_manifest
from images.filesystem import copy_sparse, read_file, replace_file

SERVICE_PATH = "/etc/satchel/service"
NEEDS = ("time", "monotonic", "randomness")
"""All that a recipe may need of the log."""


def preloaded(image: BuiltImage, folder: Path) -> BuiltImage:
    """A copy of the image in `folder`, whose service has all of NEEDS.

    The folder is made, and is complete when this returns. Raises CapacityError, and
    FileSystemBroken for an image without an agent's description of its service.
    """
    kernel, initrd = image.kernel, image.initrd
    assert kernel and initrd, "what starts from its disk is carried"
    folder.mkdir()
    recipe = dataclasses.replace(image.recipe, needs=NEEDS)
    copy = dataclasses.replace(
        image,
        recipe=recipe,
        disk=folder / image.disk.name,
        kernel=folder / kernel.name,
        initrd=folder / initrd.name,
    )
    for path in (kernel, initrd):
        shutil.copyfile(path, folder / path.name)
    copy_sparse(image.disk, copy.disk)
    lines = read_file(copy.disk, SERVICE_PATH).decode().splitlines(keepends=True)
    wanted = [f"environment={pair}\n" for pair in recipe.preload()]
    first = next((n for n, row in enumerate(lines) if row.startswith("environment=")), len(lines))
    text = folder / "service"
    text.write_text("".join([*lines[:first], *wanted, *lines[first:]]), encoding="utf-8")
    replace_file(copy.disk, SERVICE_PATH, text)
    text.unlink()
    write_manifest(folder, copy)
    return copy
