# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One testbed for all of these tests, and a fresh copy of home and stick for each of them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeserver.home import signers_line
from testbed import Testbed
from testbed.built import cache_folder
from testbed.media import Stick
from testbed.roles import Roles
from tests.leftovers import SHORT_PREFIX
from tests.machines import NotesCheckpoint
from tests.system.site import Carried, Site

DEVICE_BYTES = 256 << 20
"""The checkpoint takes a third of it."""


@pytest.fixture(scope="package")
def bed() -> Iterator[Testbed]:
    """Home, two hotspots, a client, with the links of today."""
    with Testbed() as started:
        yield started


@pytest.fixture(scope="package")
def carried(bed: Testbed, notes_checkpoint: NotesCheckpoint) -> Iterator[Carried]:
    """Made once, with the programs that a person uses."""
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    notes_checkpoint.copy_home(folder / "h")
    roles = Roles(bed, folder, cache_folder())
    stick = Stick(folder / "m", size=DEVICE_BYTES)
    home = roles.home
    try:
        home.start("home.sock", [roles.identity.public])
        home.command("launch", "notes", "--json")
        home.command("media", "init", stick.root, "--json")
        home.command("checkpoint", "notes", "--media", stick.root, "--json")
        home.stop()
        stick.eject()
        signers = signers_line(notes_checkpoint.home)
        device = stick.image if stick.is_device else None
        yield Carried(home.folder / "data", device, stick.root, signers)
    finally:
        home.stop()
        stick.close()
        shutil.rmtree(folder)


@pytest.fixture
def parts(bed: Testbed, carried: Carried, short_path: Path) -> Iterator[Site]:
    """Everything in its place, nothing running. Nothing may be left of it afterwards."""
    site = Site(bed, carried, short_path)
    try:
        yield site
    finally:
        left = site.close()
        print(site.logs())  # shown where a test fails
        if bed.client.hotspot != "a":
            bed.client.move("a")
    assert left == []


@pytest.fixture
def site(parts: Site) -> Site:
    """Every daemon running, and `notes` at home."""
    parts.start()
    return parts
