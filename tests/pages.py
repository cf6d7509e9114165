# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A daemon's page in Chromium: narrow and wide, light and dark, by axe, with the keyboard alone."""

from __future__ import annotations

import base64
import contextlib
import importlib.resources
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.browser import Browser, driven
from tests.waiting import eventually

AXE = "const done = arguments[0]; axe.run().then((found) => done(found.violations));"

LOOKS = list(itertools.product((360, 1440), ("light", "dark")))

PICTURES = "SATCHEL_PICTURES"
"""The environment's name of a folder that gets a picture of each look."""


@contextlib.contextmanager
def seen(folder: Path, link: str) -> Iterator[Browser]:
    """A browser that has logged in, and is told what happens."""
    folder.mkdir()
    with driven(folder, (1440, 900)) as made:
        made.goes_to(link)
        assert eventually(lambda: text(made, "#state") == "Live", 30.0)
        yield made


def text(browser: Browser, selector: str = "#sections") -> str:
    return str(browser.says(f"return document.querySelector({json.dumps(selector)}).textContent"))


def look(browser: Browser, width: int, scheme: str) -> None:
    """As on a screen of that width, of somebody who likes it light or dark."""
    size: dict[str, Any] = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.devtools("Emulation.setDeviceMetricsOverride", **size)
    browser.devtools("Emulation.setScrollbarsHidden", hidden=True)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.devtools("Emulation.setEmulatedMedia", features=features)


def require_every_look(browser: Browser, name: str) -> None:
    """It is accessible, and nothing of it is beside the screen."""
    axe = importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    browser.devtools("Runtime.evaluate", expression=axe)
    for width, scheme in LOOKS:
        look(browser, width, scheme)
        assert browser.says(AXE, "async") == [], (width, scheme)
        assert browser.says("return document.documentElement.scrollWidth") <= width
        if folder := os.environ.get(PICTURES):
            take_picture(browser, Path(folder, f"{name}-{width}-{scheme}.png"))


def take_picture(browser: Browser, path: Path) -> None:
    """All of the page, as it looks now."""
    size = browser.devtools("Page.getLayoutMetrics")["cssContentSize"]
    width = browser.says("return window.innerWidth")  # with what a bar to scroll would take
    clip = {"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1}
    beyond = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    picture = browser.devtools("Page.captureScreenshot", **beyond)
    path.write_bytes(base64.b64decode(picture["data"]))


def tab_to(browser: Browser, label: str, most: int = 40) -> None:
    """Press Tab until something of that text has the focus, which is to be seen."""
    for _ in range(most):
        browser.press("tab")
        if browser.says("return document.activeElement.textContent") == label:
            break
    assert browser.says("return document.activeElement.textContent") == label
    assert browser.says("return document.activeElement.matches(':focus-visible')")


def require_keyboard(browser: Browser) -> None:
    """Whatever is wider than its place can be scrolled without a mouse, and shows its focus."""
    regions = browser.says("return document.querySelectorAll('.scroll').length")
    reached = set()
    for _ in range(4 * regions):
        browser.press("tab")
        reached.add(browser.says("return document.activeElement.getAttribute('aria-label')"))
        assert browser.says(
            "return document.activeElement === document.body"
            " || document.activeElement.matches(':focus-visible')"
        )
    labels = browser.says(
        "return [...document.querySelectorAll('.scroll')].map(e => e.getAttribute('aria-label'))"
    )
    assert labels
    assert set(labels) <= reached
