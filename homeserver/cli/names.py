# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names that home has on its disk, for the shell to complete."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from homeserver.cli.context import Context


def services(context: Context) -> Iterator[str]:
    return _described(context.settings.services, "service")


def shares(context: Context) -> Iterator[str]:
    return _described(context.settings.shares, "share")


def volumes(context: Context) -> Iterator[str]:
    from chunkstore import Catalog

    return (entry.name for entry in Catalog(context.store).list())


def images(context: Context) -> Iterator[str]:
    """Those that are built."""
    return (path.parent.name for path in context.settings.images.glob("*/disk"))


def recipes(context: Context) -> Iterator[str]:
    """Those that come with Satchel; and folders here, which may hold one."""
    from images import recipes as shipped

    yield from (recipe.name for recipe in shipped())
    yield from (str(path.parent) for path in Path().glob("*/recipe.toml"))


def _described(folder: Path, kind: str) -> Iterator[str]:
    return (path.parent.name for path in folder.glob(f"*/{kind}.json"))
