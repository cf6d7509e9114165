# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Findings of the doctor about the user that machines and the owner's key have."""

import dataclasses
import os
from pathlib import Path

import pytest

from homeserver.clients import paired_keys
from homeserver.preflight import preflight
from homeserver.settings import HomeSettings
from tests.needs import requires
from wire import authorized_keys_line

USER = 54321


def warned(settings: HomeSettings, folder: Path) -> dict[str, str]:
    """Severities, by remedy, of what it finds about that."""
    found = preflight(settings, 1, folder / "authorized_keys")
    return {one.remedy: one.severity for one in found if "owner's key" in one.what}


@requires("root", "bwrap", "userns")
@pytest.mark.parametrize(
    "user, cell, severities",
    [(0, "auto", []), (USER, "auto", []), (USER, "off", ["fault"])],
)
def test_a_key_that_has_the_machines_user_is_told(
    tmp_path: Path, user: int, cell: str, severities: list[str]
) -> None:
    settings = HomeSettings(data=tmp_path, cell=cell)  # type: ignore[arg-type]
    settings.identity.parent.mkdir(mode=0o700)
    settings.identity.touch(mode=0o600)
    os.chown(settings.identity, user, user)
    told = warned(settings, tmp_path)
    assert list(told.values()) == severities
    assert all(remedy for remedy in told)
    assert warned(dataclasses.replace(settings, data=tmp_path / "none"), tmp_path) == {}


def test_media_are_for_the_paired_clients(tmp_path: Path) -> None:
    key = "ssh-ed25519 " + "A" * 68
    lines = tmp_path / "authorized_keys"
    paired = authorized_keys_line(key, "/usr/bin/satchel-home door", comment="laptop")
    lines.write_text(f"# mine\n{key} a shell\n{paired}\n")
    assert paired_keys(lines) == {key: "laptop"}
    assert paired_keys(tmp_path / "none") == {}
