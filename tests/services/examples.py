# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Images of the services in docs/examples, as a person builds them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from images import BuiltImage, build, target
from replay import agent_program
from testbed.built import ROOT, cache_folder

EXAMPLES = ROOT / "docs" / "examples"


def example(name: str, folder: Path, added: Mapping[str, bytes | Path] | None = None) -> BuiltImage:
    """The image of that example, built now if it is not up to date. folder: where its recipe is
    copied to if the person adds files; added: their contents, or folders, by path in the guest."""
    recipe = EXAMPLES / name
    if added:
        recipe = shutil.copytree(recipe, folder / name)
        for path, content in added.items():
            file = recipe / "files" / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                file.write_bytes(content)
            else:
                shutil.copytree(content, file, symlinks=True)
    return build(target(str(recipe)), cache_folder() / name, agent=agent_program())
