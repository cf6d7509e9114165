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


Begun = Callable[[Mapping[str, object]], object]
"""Makes a command's object of the parameters of the whole program."""


def complete_names(command: click.Command, names: Mapping[str, Names], begun: Begun) -> None:
    """Let the shell complete the parameters of a command, and of those below it.

    names: by `COMMAND.PARAMETER`, where COMMAND is the word that stands before, or by `PARAMETER`
    alone, for all other commands
    """
    if isinstance(command, click.Group):
        for child in command.commands.values():
            words = (f"{command.name}.{child.name}", str(command.name))
            for parameter in child.params:
                _complete(parameter, _named(parameter, names, *words), begun)
    for parameter in command.params:
        _complete(parameter, _named(parameter, names, str(command.name)), begun)


def _named(parameter: click.Parameter, names: Mapping[str, Names], *words: str) -> Names | None:
    keys = [*(f"{word}.{parameter.name}" for word in words), str(parameter.name)]
    return next((names[key] for key in keys if key in names), None)


def _complete(parameter: click.Parameter, names: Names | None, begun: Begun) -> None:
    if names is None:
        return

    def offer(context: click.Context, incomplete: str) -> list[CompletionItem]:
        known = _known(context, names, begun)
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]

    parameter.shell_complete = offer  # type: ignore[assignment, method-assign]


def _known(context: click.Context, names: Names, begun: Begun) -> list[str]:
    """Whatever goes wrong, somebody only pressed a key: then there are none."""
    try:
        return sorted(set(names(begun(context.find_root().params))))
    except Exception:
        return []
