# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the reference pages from the code: docs/commands.md, docs/errors.md, docs/settings.md; and
the index of docs/formats from its pages.

.venv/bin/python scripts/reference.py           write the pages that changed, and name them
.venv/bin/python scripts/reference.py --check   write nothing; exit 1 if a page is out of date
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "satchel", "caching", "sandbox", "chunkstore", "console", "hypervisor", "wire", "images",
    "volumes", "replay", "shares", "uplink", "guestshares", "replica", "media", "hosting",
    "homeserver", "surrogate", "client", "testbed",
)  # fmt: skip
PROGRAMS = {
    "satchel": "client.cli",
    "satchel-home": "homeserver.cli",
    "satchel-surrogate": "surrogate.cli",
}
SETTINGS = (
    ("client.toml", "client.platform.settings", "ClientSettings"),
    (
        "client.toml, `home` and each of `surrogates`; surrogate.toml, each of `peers`",
        "wire",
        "Peer",
    ),
    ("client.toml, `uplink`", "uplink.gateway.settings", "UplinkSettings"),
    (
        "client.toml, each of `uplink.services`",
        "uplink.gateway.settings",
        "UplinkService",
    ),
    ("home.toml", "homeserver.settings", "HomeSettings"),
    ("home.toml, each of `uplink`", "uplink.helper.settings", "HelpedService"),
    ("surrogate.toml", "surrogate.settings", "SurrogateSettings"),
    ("surrogate.toml, `tenant`", "surrogate.caps", "TenantCaps"),
)
KINDS = {
    "str": "text", "Path": "path", "int": "whole number", "float": "number", "bool": "true, false",
}  # fmt: skip
"""Types of settings in words; others are tables."""
CHOICES = ("Durability", "Policy")
"""Types that have a name of their own, of which the meaning lists the values."""
SHORT = 60
"""Characters that --help of a group has for each command, on a terminal of 80 columns."""
MADE = "<!-- Made by scripts/reference.py. Change the code, then run it. -->"


def _modules() -> Iterator[str]:
    """Every module of the packages, but for those that only run."""
    for package in PACKAGES:
        yield package
        for found in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            leaf = found.name.rsplit(".", 1)[-1]
            if leaf != "__main__" and not leaf.startswith("_"):
                yield found.name


def _sentence(text: str | None) -> str:
    """The first paragraph of a docstring on one line, safe in a table cell."""
    first = (text or "").strip().split("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def errors_page() -> str:
    """The exception tree with exit codes, wire codes and HTTP statuses."""
    for name in _modules():
        importlib.import_module(name)
    satchel_errors = importlib.import_module("satchel.errors")
    status = importlib.import_module("wire.errors").STATUS
    roots = satchel_errors.ROOTS
    lines = [
        "# Errors",
        "",
        MADE,
        "",
        "Every error is one of ten roots or a leaf of one. An error says what happened and on",
        "what, then why, then what to do. A program prints that as one line on standard error and",
        "exits with the root's code; with `--json` it prints an object with `code`, `what`, `why`",
        "and `fix`. Between machines the same object is the body of an answer with the HTTP status",
        "below, and a leaf arrives as its root.",
        "",
        "## Roots",
        "",
        _row("class", "exit", "code", "HTTP", "meaning"),
        _row("---", "---", "---", "---", "---"),
    ]
    for root in roots:
        meaning = _sentence(root.__doc__) if root is not roots[0] else "Anything else: a defect."
        code = root.wire_code
        lines.append(_row(f"`{root.__name__}`", root.exit_code, code, status[code], meaning))
    lines += [
        "",
        "Ctrl-C and SIGTERM end a program with 130. A daemon or a session that is up ends with",
    ]
    lines += ["0 by SIGTERM.", "", "## Leaves", ""]
    leaves = set(_subclasses(satchel_errors.SatchelError)) - set(roots)
    leaves = {leaf for leaf in leaves if leaf.__module__.split(".")[0] in PACKAGES}
    for root in roots:
        mine = [leaf for leaf in leaves if next(p for p in leaf.__mro__ if p in roots) is root]
        lines += [f"### `{root.__name__}`", ""] if mine else []
        for leaf in sorted(mine, key=lambda c: (PACKAGES.index(_package(c)), c.__name__)):
            lines.append(f"- `{leaf.__name__}` ({_package(leaf)}): {_sentence(leaf.__doc__)}")
        lines += [""] if mine else []
    return "\n".join(lines).rstrip() + "\n"


def _package(kind: type) -> str:
    return kind.__module__.split(".")[0]


def _subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    for child in cls.__subclasses__():
        yield child
        yield from _subclasses(child)


def commands_page() -> str:
    """Every program, command, argument and option."""
    lines = ["# Commands", "", MADE, "", "With `--json` a command answers in JSON.", ""]
    for program, package in PROGRAMS.items():
        module = importlib.import_module(package)
        lines += [f"## {program}", "", _sentence(module.group.help), ""]
        lines += _options(module.group)
        for path, command in commands_of(package):
            usage = " ".join([program, *path, *arguments_of(command)])
            if command.get_short_help_str(SHORT).endswith("..."):
                raise SystemExit(f"the first sentence about {usage} is longer than {SHORT}")
            lines += [f"### `{usage}`", "", help_of(command), ""]
            lines += _options(command)
    return "\n".join(lines).rstrip() + "\n"


def commands_of(package: str) -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command that takes arguments of its own, with the words that lead to it."""
    found: list[tuple[tuple[str, ...], click.Command]] = []
    folder = Path(importlib.import_module(package).__path__[0])
    for info in pkgutil.iter_modules([str(folder)]):
        module = importlib.import_module(f"{package}.{info.name}")
        top = getattr(module, "command", None)
        if isinstance(top, click.Group):
            if top.invoke_without_command:
                found.append(((str(top.name),), top))
            found += [((str(top.name), name), child) for name, child in top.commands.items()]
        elif isinstance(top, click.Command):
            found.append(((str(top.name),), top))
    return sorted(found, key=lambda item: item[0])


def help_of(command: click.Command) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))


def arguments_of(command: click.Command) -> list[str]:
    return [p.make_metavar(click.Context(command)) for p in command.params if _is_argument(p)]


def _is_argument(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


def _options(command: click.Command) -> list[str]:
    options = [option for option in command.params if isinstance(option, click.Option)]
    lines = []
    if any("--json" in option.opts for option in options):
        lines = ["`--json`", ""]
    for option in [option for option in options if "--json" not in option.opts]:
        required = " Required." if option.required else ""
        variable = f" Environment: `{option.envvar}`." if option.envvar else ""
        names = ", ".join(f"`{name}`" for name in option.opts)
        lines.append(f"- {names}: {option.help or ''}{required}{variable}")
    return [*lines, ""] if lines and lines[-1] else lines


def settings_page() -> str:
    """Every key of every settings file, with its default and its meaning."""
    lines = ["# Settings", "", MADE, ""]
    lines += [
        "A settings file is TOML, in `$XDG_CONFIG_HOME/satchel` or where `--config` says. A user",
        "who has none has the one in `/etc/satchel`, if it is there. A file that is missing is an",
        "empty one; a key that is not listed here is an error. `_` may be written as `-`. The",
        "folders of a user who has not set these variables are `~/.config`,",
        "`~/.local/share`, `~/.local/state`, `~/.cache`, and `/tmp/satchel-UID` for sockets.",
        "",
    ]
    for title, module, name in SETTINGS:
        lines += [f"## {title}", ""]
        for key, kind, default, meaning in settings_of(module, name):
            lines.append(f"- `{key}` ({kind}{default and ', default '}{default}): {meaning}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def settings_of(module: str, name: str) -> Iterator[tuple[str, str, str, str]]:
    """Key, kind, default and meaning of each setting of a class."""
    cls = getattr(importlib.import_module(module), name)
    fields = dataclasses.fields(cls)
    meanings = _meanings(cls.__doc__ or "", [field.name for field in fields])
    for field in fields:
        yield field.name, _kind(str(field.type)), _default(field), meanings.get(field.name, "")


def _kind(annotation: str) -> str:
    """What a person writes for a field of that type. What is left are tables and names of choices.

    >>> _kind("tuple[str, ...]"), _kind("dict[str, Peer]"), _kind("Literal['a', 'b']")
    ('list of texts', 'table', 'choice')
    """
    if annotation.startswith("tuple["):
        return f"list of {_kind(annotation[6:-6])}s"
    if annotation.startswith("Literal[") or annotation in CHOICES:
        return "choice"
    return KINDS.get(annotation, "table")


def name_folders_by_their_variables() -> None:
    """So that defaults of settings are the same on every machine."""
    for base in ("CONFIG", "DATA", "STATE", "CACHE", "RUNTIME"):
        suffix = "DIR" if base == "RUNTIME" else "HOME"
        os.environ[f"XDG_{base}_{suffix}"] = f"$XDG_{base}_{suffix}"


def _default(field: dataclasses.Field[Any]) -> str:
    factory = field.default_factory
    value = field.default if factory is dataclasses.MISSING else factory()
    if dataclasses.is_dataclass(value) or value in ("", {}):
        return ""
    if isinstance(value, tuple):
        return f"`{json.dumps([str(item) for item in value])}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _meanings(docstring: str, keys: list[str]) -> dict[str, str]:
    """`key: meaning` of a settings class's docstring; a meaning ends where the next key begins."""
    key = rf"(?:^ *|; )(?:{'|'.join(keys)}): "
    pattern = re.compile(rf"(?={key})\W*(\w+): +(.+?)(?={key}|\n\s*\n|\s*\Z)", re.M | re.S)
    return {name: _sentence(text) for name, text in pattern.findall(docstring)}


def formats_page() -> str:
    """Return the index of the format pages: the formats of each."""
    lines = ["# Formats", "", MADE, ""]
    lines += [
        "The files, blobs and messages that Satchel writes to disks, media and sockets, one page a",
        "family: a byte table, a worked example, and downsides. Integers are little-endian. Each",
        "section names the one header or module that defines its format; a difference between the",
        "two is a defect. A reader refuses an unknown version, and names the known one.",
        "",
    ]
    for page in sorted((ROOT / "docs" / "formats").glob("*.md")):
        if page.name != "README.md":
            title, _, body = page.read_text(encoding="utf-8").removeprefix("# ").partition("\n")
            own, *parts = body.split("\n## ")
            of = [
                part.partition("\n")[0]
                for part in parts
                if "efined by" not in own and "efined by" in part.split("\n\n", 2)[1]
            ]
            lines.append(f"- [{title}]({page.name})" + (f": {', '.join(of).lower()}" if of else ""))
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "docs/commands.md": commands_page,
    "docs/errors.md": errors_page,
    "docs/formats/README.md": formats_page,
    "docs/settings.md": settings_page,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the reference pages from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    check = parser.parse_args().check
    name_folders_by_their_variables()
    stale = []
    for name, make in PAGES.items():
        page = ROOT / name
        content = make()
        if not page.exists() or page.read_text(encoding="utf-8") != content:
            stale.append(name)
            if not check:
                page.write_text(content, encoding="utf-8")
    if stale:
        print(("out of date: " if check else "wrote ") + ", ".join(stale))
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
