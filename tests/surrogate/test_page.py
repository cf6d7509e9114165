# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The operator's page in Chromium: narrow and wide, light and dark, with the keyboard, by axe."""

from __future__ import annotations

import base64
import importlib.resources
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surrogate.page import surrogate_view
from tests.browser import NOVNC, Browser, driven
from tests.needs import requires
from tests.surrogate.conftest import Site
from tests.waiting import eventually
from wire import Page

pytestmark = [pytest.mark.nightly, NOVNC, requires("nbdkit", "nbdfuse", "fuse")]

AXE = "const done = arguments[0]; axe.run().then((found) => done(found.violations));"

LOOKS = list(itertools.product((360, 1440), ("light", "dark")))


@pytest.fixture
def page(site: Site) -> Iterator[Page]:
    with Page(lambda: surrogate_view(site.host), actions={"end": site.host.remove}) as made:
        yield made


@pytest.fixture
def browser(tmp_path: Path, page: Page) -> Iterator[Browser]:
    folder = tmp_path / "browser"
    folder.mkdir()
    with driven(folder, (1440, 900)) as made:
        made.goes_to(page.link)
        assert eventually(lambda: text(made, "#state") == "Live", 30.0)
        yield made


def text(browser: Browser, selector: str) -> Any:
    return browser.says(f"return document.querySelector({json.dumps(selector)}).textContent")


def look(browser: Browser, width: int, scheme: str) -> None:
    browser.devtools(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.devtools("Emulation.setEmulatedMedia", features=features)


def test_every_look_is_accessible_and_fits(site: Site, browser: Browser) -> None:
    site.create("r1")
    assert eventually(lambda: "r1" in text(browser, "#sections"), 30.0)
    axe = importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    browser.devtools("Runtime.evaluate", expression=axe)
    for width, scheme in LOOKS:
        look(browser, width, scheme)
        assert browser.says(AXE, "async") == [], (width, scheme)
        assert browser.says("return document.documentElement.scrollWidth") <= width
        if folder := os.environ.get("SATCHEL_PICTURES"):
            picture = browser.devtools("Page.captureScreenshot", format="png")
            name = f"surrogate-{width}-{scheme}.png"
            Path(folder, name).write_bytes(base64.b64decode(picture["data"]))


def test_a_replica_is_ended_with_the_keyboard_alone(site: Site, browser: Browser) -> None:
    site.create("r1")
    assert eventually(lambda: "r1" in text(browser, "#sections"), 30.0)
    focused = "return document.activeElement.textContent"
    for _ in range(5):
        browser.press("tab")
        if browser.says(focused) == "End":
            break
    assert browser.says("return document.activeElement.matches(':focus-visible')")
    browser.press("enter")
    browser.accept()
    assert eventually(lambda: not site.host.status(everything=True).replicas, 30.0)
    assert eventually(lambda: "None now." in text(browser, "#sections"), 30.0)
