# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Images that tests of all parts share, built once and kept.

They are in the folder that SATCHEL_TEST_CACHE names, by default build/images of the repository,
where the demonstration has its own: one build serves both.
"""

import os
from pathlib import Path

from images import BuiltImage, Recipe, build
from replay import agent_program

ROOT = Path(__file__).resolve().parents[2]


def cache_folder() -> Path:
    """One folder per image, and `layers`."""
    return Path(os.environ.get("SATCHEL_TEST_CACHE") or ROOT / "build" / "images")


def built_image(name: str) -> BuiltImage:
    """The image of a shipped recipe, built now if it is not there or not up to date."""
    return build(Recipe.find(name), cache_folder() / name, agent=agent_program())
