# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program's commands, each in a module of its own that is imported when the command is wanted."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class CommandGroup(click.Group):
    """`import` need not wait for what `serve` needs; --help needs them all."""

    def __init__(self, *, package: str, modules: Mapping[str, str], **options: Any) -> None:
        """modules: by the command's name; each has a `command`, or a `group` of them."""
        super().__init__(**options)
        self._package, self._modules = package, modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self._modules, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"{self._package}.{self._modules[cmd_name]}")
        found: click.Command = getattr(module, "group", None) or module.command
        return found
