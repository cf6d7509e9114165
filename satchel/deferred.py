# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Packages whose modules are imported when something of them is first used.

A command that takes 0.1 s must not wait 0.3 s for parts that only the daemon needs. The package
says what it exports once, as it would without this, where only the type checker looks:

    if TYPE_CHECKING:
        from homeserver.home import Home
        from homeserver.services.service import Service
    else:
        __getattr__ = deferred(__name__)

Not for a package that exports something under the name of one of its modules: whoever imports the
module first would hide it.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def deferred(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: a name of its `from package.module import name` is imported
    when it is asked for, and so is a module of its `from package import module`."""
    module = sys.modules[package]

    @cache
    def places() -> dict[str, tuple[str, str]]:
        source = ast.parse(Path(module.__file__ or "").read_bytes())
        imports = [node for node in ast.walk(source) if isinstance(node, ast.ImportFrom)]
        return {
            alias.asname or alias.name: (node.module, alias.name)
            for node in imports
            if node.module and f"{node.module}.".startswith(f"{package}.")
            for alias in node.names
        }

    def find(name: str) -> Any:
        if name not in places():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        place, called = places()[name]
        if place == package:
            value: Any = importlib.import_module(f"{package}.{called}")
        else:
            value = getattr(importlib.import_module(place), called)
        setattr(module, name, value)
        return value

    return find
