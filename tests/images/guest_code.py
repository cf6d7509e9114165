# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The services' own modules, which are no packages of Satchel, imported from their recipes."""

import functools
import importlib.util
from types import ModuleType

from images.recipe import SHIPPED


@functools.cache
def service_module(name: str) -> ModuleType:
    """The module of a shipped service, as the guest runs it."""
    path = SHIPPED / name / "files" / "usr" / "lib" / "satchel" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"guest_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
