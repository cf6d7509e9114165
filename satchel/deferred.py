# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Packages whose modules are imported when something of them is first used.

A command that takes 0.1 s must not wait 0.3 s for parts that only the daemon needs. The package
imports what it exports under TYPE_CHECKING, and names the places again:

    __getattr__ = deferred(__name__, {"home": ("Home",), "service": ("Service",)})

Not for a package that exports something under the name of one of its modules: whoever imports the
module first would hide it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def deferred(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package; names: what it exports, by the module that has it."""
    places = {name: module for module, exported in names.items() for name in exported}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
