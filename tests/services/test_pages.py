# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of the services in docs/examples: each has a page, and both say the same port."""

import pytest

from images import Recipe
from testbed.built import ROOT
from tests.services.examples import EXAMPLES

PAGES = ROOT / "docs" / "services"
LONGEST_PAGE = 30
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/recipe.toml"))
OF_THE_GUIDE = {"guestbook"}
"""Its page is the guide."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OF_THE_GUIDE])
def test_an_example_has_a_short_page_that_names_its_port(name: str) -> None:
    recipe = Recipe.load(EXAMPLES / name)
    page = (PAGES / f"{name}.md").read_text()
    assert len(page.splitlines()) <= LONGEST_PAGE
    assert f"../examples/{name}/recipe.toml" in page
    for port in recipe.served():
        assert f"--port {port.local}" in page
        assert port.local >= port.port  # whoever runs it need not be root
