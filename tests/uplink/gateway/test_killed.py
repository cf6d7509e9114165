# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed while programs upload: what they were told is done is done, once."""

import random
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.needs import requires
from tests.uplink.gateway.site import Site, site
from tests.waiting import eventually

pytestmark = requires("rclone", "curl")


@pytest.mark.parametrize("deaths", [3, pytest.param(40, marks=pytest.mark.nightly)])
def test_no_acknowledged_upload_is_lost_or_applied_twice(short_path: Path, deaths: int) -> None:
    draw = random.Random(deaths)
    with site(short_path, settings="deadline-minutes = 0.002") as cloud:
        done: dict[str, bytes] = {}
        over = threading.Event()
        program = threading.Thread(target=_upload_for_ever, args=(cloud, done, over))
        program.start()
        try:
            for _ in range(deaths):
                time.sleep(draw.uniform(0.2, 1.5))
                cloud.kill()
                cloud.start()
        finally:
            enough = eventually(lambda: len(done) > 3 * deaths)
            over.set()
            program.join()
        assert enough
        cloud.list_folder()  # the account is known again
        cloud.flush()
        assert set(cloud.states()) == {"confirmed"}
        for name, content in done.items():
            assert (cloud.server.files / name).read_bytes() == content
        assert not [path for path in cloud.server.files.iterdir() if "conflict" in path.name]
        applied = [line for line in cloud.server.requests("PUT") if "-> 201" in line]
        names = [line.split('"')[1].split("/")[-1] for line in applied]
        assert len(names) == len(set(names))


def _upload_for_ever(cloud: Site, done: dict[str, bytes], over: threading.Event) -> None:
    """Files of new names with curl; those whose upload succeeded are noted."""
    number = 0
    while not over.is_set():
        number += 1
        name, content = f"file-{number}", f"content {number} ".encode() * 500
        source = cloud.folder / "source"
        source.write_bytes(content)
        try:
            cloud.curl("-X", "PROPFIND", "-H", "Depth: 1")
            if cloud.curl("-T", str(source), path=f"/{name}")[0] == 201:
                done[name] = content
        except (subprocess.SubprocessError, ValueError):
            continue
