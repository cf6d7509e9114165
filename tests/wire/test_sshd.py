# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The private sshd of the testbed: what it lets in, where it runs, what it leaves."""

import contextlib
import subprocess
from pathlib import Path

import pytest

from satchel.errors import UnavailableError
from testbed.sshd import Sshd
from tests.needs import requires
from tests.waiting import eventually
from wire import Identity, SshLink

pytestmark = requires("sshd")


def commands(pids: list[int]) -> set[str]:
    """The names of those of these processes that run."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            if rest.split()[0] not in "ZX":
                found.add(name)
    return found


def test_a_host_keeps_its_key(short_path: Path) -> None:
    with Sshd.start(short_path / "sshd") as first:
        line = first.host_key.public
    with Sshd.start(short_path / "sshd", port=first.port) as second:
        assert second.host_key.public == line
        assert second.known_hosts_line == first.known_hosts_line


def test_stop_ends_sessions_and_what_runs_in_them(
    sshd: Sshd, me: Identity, short_path: Path
) -> None:
    host = sshd.host("home", me.path, short_path / "known_hosts")
    with SshLink.open(host) as link:
        pids = [sshd.pid, *sshd.processes()]
        assert len(pids) >= 3
        sshd.stop()
        sshd.stop()
        assert not sshd.alive()
        assert not commands(pids)
        assert eventually(lambda: not link.alive())


def test_a_port_that_is_taken(sshd: Sshd, short_path: Path) -> None:
    with pytest.raises(UnavailableError, match="Address already in use"):
        Sshd.start(short_path / "second", port=sshd.port)


def test_a_line_of_its_configuration_that_is_wrong(short_path: Path) -> None:
    with pytest.raises(UnavailableError, match="Bad configuration option"):
        Sshd.start(short_path / "sshd", options=["NoSuchOption yes"])


@requires("netns", "unshare", "ip")
def test_it_runs_in_a_namespace_of_its_own(short_path: Path) -> None:
    prefix = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    with Sshd.start(short_path / "sshd", port=2222, prefix=prefix) as sshd:
        here, there = (Path(f"/proc/{pid}/ns/net").readlink() for pid in ("self", sshd.pid))
        assert here != there
        assert commands([sshd.pid]) == {"sshd"}


def test_what_a_person_s_shell_does_at_its_start_is_no_part_of_a_test(
    me: Identity, short_path: Path
) -> None:
    with Sshd.start(short_path / "sshd", authorized=[me.public]) as sshd:
        host = sshd.host("home", me.path, short_path / "known_hosts")
        files = ["-i", str(me.path), "-o", f"UserKnownHostsFile={host.known_hosts}"]
        argv = ["ssh", "-F", "none", *files, "-p", str(host.port), host.destination]
        said = subprocess.run([*argv, "printenv", "HOME"], capture_output=True, check=True)
        assert said.stdout.decode().strip() == str(sshd.folder)
