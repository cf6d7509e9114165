# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The commands, as a person types them."""

import subprocess

from tests.needs import requires
from tests.uplink.gateway.site import PASSWORD, USER, Site

pytestmark = requires("rclone", "curl")


def test_a_person_sees_holds_and_flushes_uploads(cloud: Site) -> None:
    cloud.list_folder()
    source = cloud.folder / "source"
    source.write_bytes(b"content")
    words = ["curl", "-sf", "-u", f"{USER}:{PASSWORD}", "-T", str(source), f"{cloud.url}/a"]
    subprocess.run([*cloud.satchel, "run", "--background", "--", *words], check=True, timeout=60)
    assert cloud.command("status")["uploads"][0]["state"] == "held"
    shown = subprocess.run(
        [*cloud.satchel, "status"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert "/a" in shown
    assert "1 held" in shown
    assert cloud.command("hold", "--minutes", "5")["holding_seconds"] > 200
    assert cloud.command("flush") == {"in_time": True, "held": 0}
    stats = cloud.command("stats")
    assert stats["held"] == 1
    assert stats["bytes_up"] > 7
    assert "model_joules" in stats
    refused = subprocess.run(
        [*cloud.satchel, "forget", "7"], check=False, capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 3
    assert "there is no upload 7" in refused.stderr
    second = subprocess.run(
        [*cloud.satchel, "serve"], check=False, capture_output=True, text=True, timeout=60
    )
    assert second.returncode == 5
    assert "another daemon" in second.stderr
