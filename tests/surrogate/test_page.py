# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The operator's page in Chromium, of a surrogate with two tenants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from surrogate.page import surrogate_page
from surrogate.tenant_sockets import TenantSockets
from tests.browser import NOVNC, Browser
from tests.needs import requires
from tests.pages import require_every_look, seen, tab_to, text
from tests.surrogate.conftest import Site
from tests.waiting import eventually

pytestmark = [pytest.mark.nightly, NOVNC, requires("nbdkit", "nbdfuse", "fuse")]

GUESTS = ("anna.cafe", "ben.cafe")
REPLICA = "notes-20848cae9402397128b9d72975b3fdf2"


@pytest.fixture
def browser(tmp_path: Path, site: Site) -> Iterator[Browser]:
    for guest in GUESTS:
        tenant = site.host.tenants.admit(guest)
        with site.forward("home", tenant.forwarded) as server:
            site.server = server
            site.host.create(site.request(REPLICA), tenant).wait_started(30.0)
    with (
        closing(TenantSockets(site.host)) as sockets,
        surrogate_page(site.host, sockets, 0) as page,
        seen(tmp_path / "browser", page.link) as made,
    ):
        assert eventually(lambda: "anna.cafe" in text(made), 30.0)
        yield made


def left(site: Site) -> list[str]:
    return sorted(hosted.tenant.identity for hosted in site.host.replicas())


def test_every_look_is_accessible_and_fits(browser: Browser) -> None:
    require_every_look(browser, "surrogate")


def test_a_tenant_is_shown_with_its_caps(site: Site, browser: Browser) -> None:
    caps = site.host.tenants.account.caps
    assert f"1 of {caps.replicas}" in text(browser)


def test_a_long_name_is_short_and_whole_in_its_tooltip(browser: Browser) -> None:
    long = f"return document.querySelector('td[title=\"{REPLICA}\"]').textContent"
    assert browser.says(long) == "notes-20848cae…fdf2"


def test_a_tenant_is_ended_with_the_keyboard_alone(site: Site, browser: Browser) -> None:
    assert left(site) == sorted(GUESTS)
    focus = "return document.activeElement.getAttribute('aria-label')"
    for _ in range(40):
        tab_to(browser, "End all")
        if browser.says(focus) == "End all: anna.cafe":
            break
    browser.press("enter")
    browser.accept()
    assert eventually(lambda: left(site) == ["ben.cafe"], 30.0)


def test_only_the_replica_of_that_row_is_ended(site: Site, browser: Browser) -> None:
    label = f'[aria-label="End: {REPLICA} of ben.cafe"]'
    browser.says(f"document.querySelector('{label}').focus()")
    browser.press("enter")
    browser.accept()
    assert eventually(lambda: left(site) == ["anna.cafe"], 30.0)
    assert eventually(lambda: browser.says(f"return document.querySelector('{label}')") is None)
