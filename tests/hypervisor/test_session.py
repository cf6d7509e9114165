# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Machines under the libvirt of an ordinary user, as packaged daemons have one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypervisor import Boot
from tests.conftest import requires
from tests.hypervisor.conftest import HANDED
from tests.leftovers import SHORT_PREFIX

pytestmark = [
    requires(*("root", "libvirtd", "virsh", "libvirt", "setpriv", "bwrap", "userns", "nbdkit")),
    pytest.mark.machine,
]

USER = 54322
"""No account of this host has this number. Libvirt looks for an account and a group."""

GROUP = 65534

_AS_USER = """
set -e
mount --bind "$1" "$2"; mount --bind "$3" /etc/passwd; cd "$2"; shift 3
exec setpriv --reuid={user} --regid={group} --clear-groups "$@"
"""
"""The tree may lie in a folder that is closed to this user."""


class OrdinaryUser:
    """A user with a home, a tree of the tests and a guest that root has booted."""

    def __init__(self, folder: Path, checkpoint: Path, boot: Boot) -> None:
        folder.chmod(0o755)
        self._tree, self._home, self._guest = (folder / name for name in ("tree", "home", "guest"))
        for made in (self._tree, self._home, self._guest):
            made.mkdir()
        self._accounts = folder / "passwd"
        account = f"satchel-test:x:{USER}:{GROUP}::{self._home}:/bin/sh\n"
        self._accounts.write_text(Path("/etc/passwd").read_text() + account)
        for name in ("ram", "device-state"):
            subprocess.run(["cp", "--sparse=always", checkpoint / name, self._guest], check=True)
        for name, source in zip(("kernel", "initrd"), boot.files, strict=True):
            shutil.copy(source, self._guest / name)
        for path in (self._home, *self._guest.iterdir()):
            os.chown(path, USER, USER)

    def run(self, *command: str) -> str:
        """Return the output of a Python module, which must succeed."""
        script = ["sh", "-c", _AS_USER.format(user=USER, group=GROUP), "sh"]
        places = map(str, (Path.cwd(), self._tree, self._accounts))
        done = subprocess.run(
            ["unshare", "--mount", *script, *places, ".venv/bin/python", "-B", "-m", *command],
            env={
                "PATH": "/usr/bin:/bin:/usr/sbin",
                "HOME": str(self._home),
                "PYTHONPATH": ".",
                "SATCHEL_TEST_RUN": os.environ["SATCHEL_TEST_RUN"],
                HANDED: str(self._guest),
            },
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def end(self) -> None:
        """End the daemons of libvirt, which would stay for two minutes."""
        for file in (self._home / ".cache" / "libvirt").glob("*.pid"):
            os.kill(int(file.read_text()), signal.SIGTERM)


@pytest.fixture
def user(checkpoint: Path, boot_files: Boot) -> Iterator[OrdinaryUser]:
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    made = OrdinaryUser(folder, checkpoint, boot_files)
    yield made
    made.end()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_domain_of_a_user_runs_in_its_cell(user: OrdinaryUser) -> None:
    found = json.loads(user.run("tests.hypervisor.under_session"))
    assert found["says"] == "machines are domains of libvirt: see `virsh list` as this user"
    assert found["list"].startswith("satchel-notes-12ab-")
    assert found["states"] == ["running", "paused", "running"]
    assert found["count"] == "2"
    assert found["user"] == USER
    assert found["cell"] == {"numbers": 2, "capabilities": 0, "filters": 3, "privileges": "1"}
    assert found["reaches"] == ["machine"]
    assert found["after a crash of libvirt"] == ["running", "3"]
    assert found["destroyed"] == "failed"
    assert found["left"] == []


@pytest.mark.nightly
def test_the_contract_of_machines_holds(user: OrdinaryUser) -> None:
    options = ["-p", "no:cacheprovider", "-q", "-n0", "-k", "session"]
    said = user.run("pytest", *options, "tests/hypervisor/test_contract.py")
    assert " passed" in said
    assert "skipped" not in said


@pytest.mark.parametrize("name", ["home", "surrogate"])
def test_doctor_names_the_package_that_is_missing(short_path: Path, name: str) -> None:
    """Libvirt's part for QEMU is hidden."""
    (short_path / "satchel").mkdir()
    places = f'data = "{short_path}/data"\nrun = "{short_path}/run"\ndriver = "libvirt"\n'
    (short_path / "satchel" / f"{name}.toml").write_text(places)
    program = str(Path(sys.executable).parent / f"satchel-{name}")
    script = 'mount -t tmpfs none /usr/lib/*/libvirt/connection-driver && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", program, "doctor"],
        env=os.environ | {"XDG_CONFIG_HOME": str(short_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert "sudo apt install libvirt-daemon-driver-qemu`" in done.stdout + done.stderr
