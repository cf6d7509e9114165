# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Makes what a package has beside the programs, from their commands: a man page of each program and
of each command, and what the shells complete.

.venv/bin/python scripts/manual.py FOLDER
    man/PROGRAM/PROGRAM.1, man/PROGRAM/PROGRAM-COMMAND.1 (a group of commands is one page),
    bash/PROGRAM, zsh/_PROGRAM, fish/PROGRAM.fish in that folder
"""

from __future__ import annotations

import datetime
import importlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from reference import (
    PROGRAMS,
    SETTINGS,
    arguments_of,
    commands_of,
    help_of,
    name_folders_by_their_variables,
    settings_of,
)

from satchel.errors import ROOTS

FILES = {
    "satchel": "client.toml",
    "satchel-home": "home.toml",
    "satchel-surrogate": "surrogate.toml",
}
Found = tuple[Sequence[str], click.Command]
"""The words that lead to a command, and the command."""

PLACES = {"bash": "bash/{}", "zsh": "zsh/_{}", "fish": "fish/{}.fish"}


def man_page(program: str) -> str:
    """The page of section 1, as man's macros have it."""
    package = PROGRAMS[program]
    group: click.Group = importlib.import_module(package).group
    what = (group.help or "").strip().splitlines()[0].rstrip(".")
    lines = [
        _heading(program),
        ".SH NAME",
        f"{_text(program)} \\- {_text(what[:1].lower() + what[1:])}",
        ".SH SYNOPSIS",
        f".B {_text(program)}",
        "[\\fIOPTION\\fR]... \\fICOMMAND\\fR [\\fIARGUMENT\\fR]...",
        ".SH OPTIONS",
        *_options(group),
        ".SH COMMANDS",
    ]
    for path, command in commands_of(package):
        lines += [f".SS {_text(_usage(program, path, command))}", *_paragraphs(command)]
        lines += _options(command)
    lines += [".SH SETTINGS", *_settings(FILES[program])]
    others = [name for name in PROGRAMS if name != program]
    return "\n".join([*lines, *_ending(program, [*others, *command_pages(program)])]) + "\n"


def _settings(file: str) -> Iterator[str]:
    """What that file may say."""
    for title, module, name in SETTINGS:
        if file in title:
            yield f".SS {_text(title)}"
            for key, kind, default, meaning in settings_of(module, name):
                shown = f" [default: {default}]" if default else ""
                what = f"{meaning[:1].upper()}{meaning[1:]}{shown}"
                yield from (".TP", f"\\fB{_text(key)}\\fR \\fI{_text(kind)}\\fR", _text(what))


def command_pages(program: str) -> dict[str, str]:
    """The pages of its commands, by their names such as `satchel-run`. A group is one page. Where a
    program has that name, as `satchel-surrogate`, the page is the program's."""
    below: dict[str, list[Found]] = {}
    for path, command in commands_of(PROGRAMS[program]):
        below.setdefault(f"{program}-{path[0]}", []).append((path, command))
    return {
        name: _command_page(program, name, found)
        for name, found in below.items()
        if name not in PROGRAMS
    }


def _command_page(program: str, name: str, found: list[Found]) -> str:
    (path, first), *_ = found
    group = importlib.import_module(PROGRAMS[program]).group
    listed = (group.commands[path[0]].help or "").rstrip(".")
    lines = [
        _heading(name),
        ".SH NAME",
        f"{_text(name)} \\- {_text(listed[:1].lower() + listed[1:])}",
        ".SH SYNOPSIS",
    ]
    for number, (words, command) in enumerate(found):
        lines += [*([".br"] if number else []), f".B {_text(_usage(program, words, command))}"]
    if len(found) == 1 and len(path) == 1:
        lines += [".SH DESCRIPTION", *_paragraphs(first)]
        if options := [*_options(first)]:
            lines += [".SH OPTIONS", *options]
    else:
        lines += [".SH COMMANDS"]
        for words, command in found:
            lines += [f".SS {_text(_usage(program, words, command))}", *_paragraphs(command)]
            lines += _options(command)
    return "\n".join([*lines, *_ending(program, [program])]) + "\n"


def _usage(program: str, path: Sequence[str], command: click.Command) -> str:
    return " ".join([program, *path, *arguments_of(command)])


def _paragraphs(command: click.Command) -> Iterator[str]:
    for number, paragraph in enumerate(help_of(command).split("\n\n")):
        yield from [*([".PP"] if number else []), _text(paragraph)]


def _heading(name: str) -> str:
    return f'.TH {name.upper()} 1 {_day()} "Satchel {version("satchel")}" "Satchel"'


def _day() -> str:
    """Of the build; reproducible builds say which."""
    built = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return datetime.datetime.fromtimestamp(built, datetime.UTC).date().isoformat()


def _options(command: click.Command) -> Iterator[str]:
    for option in command.params:
        if isinstance(option, click.Option):
            names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.opts)
            value = "" if option.is_flag else f" \\fI{_text(_metavar(option, command))}\\fR"
            yield from (".TP", names + value, _text(option.help or "Show this."))


def _metavar(option: click.Option, command: click.Command) -> str:
    return option.make_metavar(click.Context(command))


def _ending(program: str, others: Iterable[str]) -> Iterator[str]:
    yield from (".SH FILES", ".TP", f".I ~/.config/satchel/{FILES[program]}")
    yield from ("Settings.", ".TP", f".I /etc/satchel/{FILES[program]}")
    yield _text("Settings of this machine, where a user has none.")
    yield from (".SH EXIT STATUS", ".TP", ".B 0", "It is done.")
    for root in ROOTS[1:]:
        meaning = " ".join((root.__doc__ or "").split("\n\n")[0].split())
        yield from (".TP", f".B {root.exit_code}", _text(meaning))
    yield from (".TP", ".B 1", "A defect.")
    yield from (".TP", ".B 130", _text("It was interrupted by Ctrl-C."))
    named = sorted(set(others))
    yield ".SH SEE ALSO"
    yield ", ".join(f"\\fB{_text(name)}\\fR(1)" for name in named)


def _text(text: str) -> str:
    """Escaped for roff; what is in backticks is bold."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    safe = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", " ".join(safe.split()))
    return "\\&" + safe if safe.startswith(".") else safe


def completion(program: str, shell: str) -> str:
    """What a shell reads to complete a program's words: it asks the program itself."""
    kind = get_completion_class(shell)
    assert kind is not None
    variable = f"_{program.upper().replace('-', '_')}_COMPLETE"
    return kind(importlib.import_module(PROGRAMS[program]).group, {}, program, variable).source()


def main() -> None:
    out = Path(sys.argv[1])
    name_folders_by_their_variables()
    for program in PROGRAMS:
        made = {f"man/{program}/{program}.1": man_page(program)}
        made |= {f"man/{program}/{name}.1": page for name, page in command_pages(program).items()}
        made |= {place.format(program): completion(program, s) for s, place in PLACES.items()}
        for name, text in made.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(text.rstrip("\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
