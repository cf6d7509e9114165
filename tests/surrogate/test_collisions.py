# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two blocks with one SHA-1 on a machine's disk, read through a surrogate that fetches them."""

import dataclasses
import hashlib
import logging
import subprocess
from pathlib import Path

import pytest

from media import Media
from tests.chunkstore.content import COLLISIONS, noise
from tests.needs import requires
from tests.surrogate.conftest import Site

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "nbdcopy")

ONE, TWO = COLLISIONS
CONTENT = noise(1, 70) + TWO + noise(2, 70) + ONE + TWO


@pytest.mark.parametrize("way", ["home", "stick"])
def test_each_comes_back_in_its_place(
    short_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Over a forwarded socket of home, and from a medium that is plugged into the surrogate."""
    site = Site(short_path, media=(short_path / "media",))
    try:
        store = site.origin.store
        disk = store.import_bytes(CONTENT)
        manifest = dataclasses.replace(
            site.origin.manifest, volumes={**site.origin.manifest.volumes, "disk0": disk}
        )
        if way == "stick":
            root = short_path / "media" / "stick"
            root.mkdir(parents=True)
            with Media.init(root) as media:
                media.add(store, store.reachable(manifest.roots()))
            site.source.dead = True
            site.host.site.look()
        caplog.clear()
        with caplog.at_level(logging.WARNING, "chunkstore"):
            hosted = site.create(volumes=manifest.volumes)
            assert hosted.status().state == "ready", hosted.status().error
            (socket,) = site.settings.run.rglob("nbd.sock")
            uri = f"nbd+unix:///disk0?socket={socket}"
            subprocess.run(["nbdcopy", uri, short_path / "copy"], check=True)
        assert (short_path / "copy").read_bytes() == CONTENT
        assert site.host.store.collisions == 1
        assert site.host.store.stats().variants == 1
        (told,) = (record.message for record in caplog.records if "SHA-1" in record.message)
        assert hashlib.sha1(ONE).hexdigest() in told
        asked = [name for name, count in hosted.fetcher.bytes_by_source().items() if count]
        assert [name.partition("-")[0] for name in asked] == ["home" if way == "home" else "media"]
    finally:
        site.close()
