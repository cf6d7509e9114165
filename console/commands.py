# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program's commands, each in a module of its own that is imported when the command runs; and
what comes before any of them."""

from __future__ import annotations

import functools
import importlib
import keyword
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from console.completing import Names, complete_names
from console.logs import log_to_stderr
from satchel.paths import config_file
from satchel.settings import load


def program_group(
    package: str,
    lines: Mapping[str, str],
    settings: type[Any],
    file: str,
    names: Mapping[str, Names] | None = None,
) -> Callable[[Callable[..., object]], click.Group]:
    """Makes a program of a function: from its settings, which are read from `file` of the
    configuration or from what --config names, and its own options, it makes what each command gets
    as its context's object. package, lines, names: as CommandGroup's."""

    def decorate(begin: Callable[..., object]) -> click.Group:
        def begun(config: Path | None, **own: object) -> object:
            return begin(load(settings, config or config_file(file)), **own)

        @click.group(
            cls=CommandGroup,
            package=package,
            lines=lines,
            file=file,
            names=names or {},
            begun=begun,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        @click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help=f"Settings [default: ~/.config/satchel/{file}, or /etc/satchel/{file}].",
        )
        @click.option("-v", "--verbose", is_flag=True, help="Log for developers.")
        @click.version_option(package_name="satchel")
        @functools.wraps(begin)
        @click.pass_context
        def group(
            context: click.Context, /, config: Path | None, verbose: bool, **own: object
        ) -> None:
            log_to_stderr(verbose=verbose)
            context.obj = begun(config, **own)

        return group

    return decorate


class CommandGroup(click.Group):
    """--help and completion show lines of a table: neither they nor `import` wait for what `serve`
    needs."""

    def __init__(
        self,
        *,
        package: str,
        lines: Mapping[str, str],
        file: str,
        names: Mapping[str, Names],
        begun: Callable[..., object],
        **options: Any,
    ) -> None:
        """lines: by the command's name, the first sentence of its help. Its module has that name,
        `serve_volume` for `serve-volume` and `import_` for `import`, and in it a `command`, which
        may be a group. file: the name of its settings file. names: as `complete_names` has them.
        begun: makes a command's object of the program's own parameters."""
        super().__init__(**options)
        self.file = file
        self._package, self._listed = package, frozenset(lines)
        self._names, self._begun = names, begun
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

    def _object(self, parameters: Mapping[str, object]) -> object:
        """What commands get, while a shell completes their arguments. Raises as `load` does."""
        own = {name: value for name, value in parameters.items() if name != "verbose"}
        return self._begun(**own)

    def _imported(self, name: str) -> click.Command:
        leaf = name.replace("-", "_") + ("_" if keyword.iskeyword(name) else "")
        command: click.Command = importlib.import_module(f"{self._package}.{leaf}").command
        complete_names(command, self._names, self._object)
        return command
