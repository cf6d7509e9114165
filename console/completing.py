# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names that a shell completes: services, surrogates, volumes and whatever else a program knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

Names = Callable[[Any], Iterable[str]]
"""From what a command gets as its context's object, the names that may stand there."""


def complete_names(command: click.Command, names: Mapping[str, Names]) -> None:
    """Let the shell complete the parameters of a command, and of those below it.

    names: by `COMMAND.PARAMETER`, where COMMAND is the word that stands before, or by `PARAMETER`
    alone, for all other commands
    """
    if isinstance(command, click.Group):
        for child in command.commands.values():
            for parameter in child.params:
                _complete(parameter, names, f"{command.name}.{child.name}", str(command.name))
    for parameter in command.params:
        _complete(parameter, names, str(command.name))


def _complete(parameter: click.Parameter, names: Mapping[str, Names], *words: str) -> None:
    keys = [*(f"{word}.{parameter.name}" for word in words), str(parameter.name)]
    found = next((names[key] for key in keys if key in names), None)
    if found is None:
        return

    def offer(context: click.Context, incomplete: str) -> list[CompletionItem]:
        known = _known(context, found)
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]

    parameter.shell_complete = offer  # type: ignore[assignment, method-assign]


def _known(context: click.Context, names: Names) -> list[str]:
    """Whatever goes wrong, somebody only pressed a key: then there are none."""
    from console.commands import CommandGroup

    group = context.find_root().command
    assert isinstance(group, CommandGroup)
    try:
        return sorted(set(names(group.begun(context.find_root().params))))
    except Exception:
        return []
