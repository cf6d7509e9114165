# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""200 uploads of real programs, of each of which it is known whether a person waits for it: none of
a person's is held, and every other one is."""

import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.needs import requires
from tests.uplink.gateway.site import PASSWORD, USER, Site, site

pytestmark = requires("curl", "rclone")

EACH = 25
RULES = """
background = ["backup-tool"]
foreground = ["photo-editor"]
"""
CGROUPS = Path("/sys/fs/cgroup")


def _plain(argv: list[str], **environment: str) -> None:
    subprocess.run(
        argv, check=True, capture_output=True, timeout=120, env=os.environ | environment,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _at_a_terminal(argv: list[str]) -> None:
    """As a shell starts it, with a pseudo-terminal of its own."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(argv[0], argv)
    with os.fdopen(terminal, "rb", buffering=0) as output:
        try:
            while output.read(4096):
                pass
        except OSError:
            pass  # the last of its processes has ended
    assert os.waitpid(pid, 0)[1] == 0


def _named(cloud: Site, name: str) -> list[str]:
    """curl under another name."""
    program = cloud.folder / name
    if not program.exists():
        program.symlink_to("/usr/bin/curl")
    return [str(program)]


@contextmanager
def _unit(name: str) -> Iterator[list[str]]:
    """What to write before a command to run it in a control group of that name."""
    folder = next((c for c in (CGROUPS / "systemd", CGROUPS / "cpu") if c.is_dir()), CGROUPS)
    group = folder / name
    group.mkdir()
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
    finally:
        group.rmdir()


@requires("root")
@pytest.mark.nightly
def test_no_person_waits_for_a_held_upload(short_path: Path) -> None:
    short_path.chmod(0o755)
    held = {True: 0, False: 0}
    with (
        site(short_path, settings=RULES) as cloud,
        _unit(f"satchel-test-{os.getpid()}.service") as unit,
    ):
        cloud.hold()
        cloud.list_folder()
        curl = ["curl"]
        mark = "SATCHEL_UPLINK"
        ways: list[tuple[bool, list[str], Callable[[list[str]], None]]] = [
            (True, curl, _at_a_terminal),
            (True, curl, _plain),  # of which nothing is known
            (True, curl, lambda argv: _plain(argv, **{mark: "foreground"})),
            (True, _named(cloud, "photo-editor"), lambda argv: _plain([*unit, *argv])),
            (False, curl, lambda argv: _plain([*unit, *argv])),
            (False, curl, lambda argv: _plain(argv, **{mark: "background"})),
            (False, _named(cloud, "backup-tool"), _plain),
            (False, _named(cloud, "backup-tool"), _at_a_terminal),
        ]
        source = cloud.folder / "source"
        source.write_bytes(b"content")
        words = ["-sf", "-o", "/dev/null", "-u", f"{USER}:{PASSWORD}", "-T", str(source)]
        for number in range(EACH):
            for person in held:
                before = cloud.ask("stats")["held"]
                for place, (waited_for, program, run) in enumerate(ways):
                    if waited_for is person:
                        run([*program, *words, f"{cloud.url}/file-{number}-{place}"])
                held[person] += cloud.ask("stats")["held"] - before
    assert held == {True: 0, False: EACH * 4}, held
