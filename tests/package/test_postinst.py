# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The order of the steps after a package is unpacked."""

import shutil
import subprocess
from pathlib import Path

from tests.needs import requires
from tests.repository import tree


@requires("dh")
def test_users_come_before_the_folders_that_they_own(tmp_path: Path) -> None:
    shutil.copytree(tree.ROOT / "debian", tmp_path / "debian")
    argv = ["make", "-f", "debian/rules", "override_dh_installtmpfiles"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    steps = (tmp_path / "debian/satchel-home.postinst.debhelper").read_text()
    assert steps.index("systemd-sysusers") < steps.index("systemd-tmpfiles")
