# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The packages for Debian 13: built there, installed where nothing else is, and used there."""

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.needs import requires
from tests.package.clean_root import SECONDS, CleanRoot
from tests.package.installed import PROGRAMS, steps, tries_everything, with_packages
from tests.repository import tree

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(SECONDS),
    requires("root", "mmdebstrap", "fuse"),
]

MADE = tree.ROOT / "build" / "debian-13" / "satchel" / "build" / "package"
NO_DEBIAN_13 = 77

BUILD = """
apt-get install -y --no-install-recommends $(sed 's/#.*//' scripts/package-packages.txt)
scripts/package
"""

TOOK: dict[str, float] = {}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanRoot]:
    """A Debian 13 in which they are installed."""
    argv = [str(tree.ROOT / "scripts" / "debian-13"), "bash", "-ec", BUILD]
    built = subprocess.run(argv, check=False, timeout=SECONDS)
    if built.returncode == NO_DEBIAN_13:
        pytest.skip("no Debian 13 can be made here")
    assert built.returncode == 0
    debs = [path for path in sorted(MADE.glob("*.deb")) if "-dbgsym_" not in path.name]
    assert len(debs) == 4
    folder = tmp_path_factory.mktemp("clean")
    yield with_packages(folder, "trixie", debs, TOOK)
    shutil.rmtree(folder, ignore_errors=True)


def test_programs_say_their_version(root: CleanRoot) -> None:
    assert "13" in root.run("cat", "/etc/debian_version")
    for program in PROGRAMS:
        assert root.run(program, "--version").startswith(f"{program}, version ")


def test_a_surrogate_runs_shut_in(root: CleanRoot) -> None:
    with root.booted() as machine:
        assert machine.property_of("satchel-surrogate", "ActiveState") == "active"
        status = json.loads(machine.run("satchel-surrogate", "status", "--json"))
        assert status["cell"].startswith("on, "), status
        machine.run("systemctl", "stop", "satchel-surrogate")
        assert machine.property_of("satchel-surrogate", "Result") == "success"


def test_a_newcomer_tries_everything(root: CleanRoot, capsys: pytest.CaptureFixture[str]) -> None:
    told = tries_everything(root, TOOK)
    assert told["note"] is True
    with capsys.disabled():
        print(f"\na newcomer's path on Debian 13, in seconds:\n{steps(TOOK)}")
