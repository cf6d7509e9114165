# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One testbed for all of these tests, and a fresh copy of home and stick for each of them."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from homeserver.home import signers_line
from testbed import Testbed
from testbed.built import cache_folder
from testbed.media import Stick
from testbed.roles import Role, Roles
from tests.leftovers import SHORT_PREFIX
from tests.machines import NotesCheckpoint
from tests.system.site import Provisions, Site

DEVICE_BYTES = 256 << 20
"""The checkpoint takes a third of it, that of the largest service two."""


@pytest.fixture(scope="package")
def bed() -> Iterator[Testbed]:
    """Home, two hotspots, a client, with the links of today."""
    with Testbed() as started:
        yield started


@pytest.fixture(scope="package")
def carried(bed: Testbed, notes_checkpoint: NotesCheckpoint) -> Iterator[Provisions]:
    """Made once, with the programs that a person uses."""
    with _folder() as folder:
        notes_checkpoint.copy_home(folder / "h")
        roles = Roles(bed, folder, cache_folder())
        with _carry(roles, "notes", signers_line(notes_checkpoint.home)) as made:
            yield made


@contextlib.contextmanager
def site_of(
    service: str,
    images: Path,
    bed: Testbed,
    folder: Path,
    before_launch: Callable[[Role], None] = lambda home: None,
) -> Iterator[Site]:
    """`site` with another service, which boots for it. images: the folder with its image;
    before_launch: gets the first home, which has the service already."""
    with _folder() as apart:
        roles = Roles(bed, apart, images)
        signers = roles.home.command("init", "--json")["allowed_signers"]
        with (
            _carry(roles, service, signers, before_launch) as made,
            placed(bed, made, folder) as site,
        ):
            site.start()
            yield site


@contextlib.contextmanager
def _carry(
    roles: Roles,
    service: str,
    signers: str,
    before_launch: Callable[[Role], None] = lambda home: None,
) -> Iterator[Provisions]:
    home = roles.home
    stick = Stick(roles.folder / "m", size=DEVICE_BYTES)
    try:
        home.start("home.sock", [roles.identity.public])
        if service != "notes":
            home.command("service", "add", service, "--json")
        before_launch(home)
        home.command("launch", service, "--json")
        home.command("media", "init", stick.root, "--unsealed", "--json")
        home.command("checkpoint", service, "--media", stick.root, "--json")
        home.stop()
        stick.eject()
        device = stick.image if stick.is_device else None
        yield Provisions(home.folder / "data", device, stick.root, signers, service)
    finally:
        home.stop()
        stick.close()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def parts(bed: Testbed, carried: Provisions, short_path: Path) -> Iterator[Site]:
    """Everything in its place, nothing running. Nothing may be left of it afterwards."""
    with placed(bed, carried, short_path) as site:
        yield site


@contextlib.contextmanager
def placed(bed: Testbed, carried: Provisions, folder: Path) -> Iterator[Site]:
    """See `parts`."""
    site = Site(bed, carried, folder)
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
    """Every daemon running, and the service at home."""
    parts.start()
    return parts
