# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Notifications, on desktops that are there, that are not, and that go away."""

from pathlib import Path

import pytest

from console import DesktopNotifier
from tests.notifications import DESKTOP, bus, mock_desktop

pytestmark = DESKTOP

ADDRESS = "DBUS_SESSION_BUS_ADDRESS"


def test_one_notification_is_shown_and_replaced(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mock_desktop(short_path / "bus") as shown:
        monkeypatch.setenv(ADDRESS, shown.address)
        with DesktopNotifier("Satchel") as desktop:
            desktop.tell("Copying <b>notes</b> & more.", percent=0)
            desktop.progress(512, 1024)
            desktop.tell("Done.", urgent=True)
        with DesktopNotifier("Satchel") as another:
            another.tell("Another one.")
        first, half, done, new = shown.shown()
    assert first.text == "Copying &lt;b&gt;notes&lt;/b&gt; &amp; more."
    assert (first.replaces, half.replaces, done.replaces, new.replaces) == (0, 1, 1, 0)
    assert "'value': 50" in half.hints.replace('"', "'")
    assert half.text == first.text
    assert "value" not in done.hints


def test_a_desktop_without_markup_gets_plain_text(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mock_desktop(short_path / "bus", "body") as shown:
        monkeypatch.setenv(ADDRESS, shown.address)
        with DesktopNotifier("Satchel") as desktop:
            desktop.tell("a < b")
        assert shown.texts() == ["a < b"]


def test_without_a_desktop_nothing_happens(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    addresses = ["", "no address", f"unix:path={short_path}/nobody"]
    with bus(short_path / "bus") as empty:
        for address in [*addresses, empty]:
            monkeypatch.setenv(ADDRESS, address)
            with DesktopNotifier("Satchel") as desktop:
                desktop.tell("Nobody reads this.")
        monkeypatch.delenv(ADDRESS)
        with DesktopNotifier("Satchel") as desktop:
            desktop.tell("Nor this.")
    assert capfd.readouterr() == ("", "")


def test_a_desktop_that_goes_away_is_told_nothing_more(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mock_desktop(short_path / "bus") as shown:
        monkeypatch.setenv(ADDRESS, shown.address)
        desktop = DesktopNotifier("Satchel")
        desktop.tell("Here.")
    desktop.tell("Gone.")
    desktop.tell("Gone still.")
    desktop.close()
    assert shown.texts() == ["Here."]
