# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program's commands, each in a module of its own that is imported when the command runs."""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Mapping
from typing import Any

import click


class CommandGroup(click.Group):
    """--help and completion show lines of a table: neither they nor `import` wait for what `serve`
    needs."""

    def __init__(self, *, package: str, lines: Mapping[str, str], **options: Any) -> None:
        """lines: by the command's name, the first sentence of its help. Its module has that name,
        `serve_volume` for `serve-volume` and `import_` for `import`, and in it a `command`, or a
        `group` of them."""
        super().__init__(**options)
        self._package, self._listed = package, frozenset(lines)
        for name, line in lines.items():
            self.add_command(click.Command(name, help=line))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that runs, instead of the one that is listed."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in self._listed:
            command = self._imported(name)
        return name, command, rest

    def _imported(self, name: str) -> click.Command:
        leaf = name.replace("-", "_") + ("_" if keyword.iskeyword(name) else "")
        module = importlib.import_module(f"{self._package}.{leaf}")
        found: click.Command = getattr(module, "group", None) or module.command
        return found
