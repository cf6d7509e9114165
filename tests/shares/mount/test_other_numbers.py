# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The owners of files at a laptop where users have other numbers than at home: real users, and real
mounts of theirs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from satchel.errors import UnavailableError
from tests.needs import requires
from tests.shares.mount.home_program import HomeProcess
from tests.shares.mount.served import SAME, Link, Served, as_user, group_of

pytestmark = requires("fuse", "root")

ROOT, BOB, ADA, EVE = 0, 1, 4_101, 4_102
"""Numbers of users: home's folder is ADA's, and BOB has the laptop. fusermount3
serves none but users that the machine knows, so he is Debian's `daemon`."""

PROGRAM_SECONDS = 120


def whose(user: int) -> str:
    """User and group, as stat(1) says."""
    return f"{user}:{group_of(user)}"


class Laptop:
    """A home whose program `home` runs and whose folder is `owner`'s, and a laptop of BOB's."""

    def __init__(self, folder: Path, home: int, owner: int, leave: ExitStack) -> None:
        folder.chmod(0o755)
        self._folder, self._leave = folder, leave
        self.root = self._made("root", owner)
        shelf = self._made("shelf", home)
        socket = shelf / "s"
        leave.enter_context(closing(HomeProcess(socket, shelf / "shares", self.root, home)))
        self.link = Link(folder / "l", socket)
        leave.callback(self.link.cut)
        self._state = self._made("state", BOB)
        self.place = self._made("laptop", BOB)

    def _made(self, name: str, user: int) -> Path:
        path = self._folder / name
        path.mkdir()
        os.chown(path, user, group_of(user))
        return path

    def mount(self, user: int = BOB, numbers: str = "mapped") -> Served:
        self.link.mend()
        self.link.path.chmod(0o666)
        if user != BOB:
            os.chown(self._state, user, group_of(user))
            os.chown(self.place, user, group_of(user))
        about = {"user": user, "numbers": numbers}
        served = Served(self.link.path, self.place, self._state, 5.0, **about)  # type: ignore[arg-type]
        self._leave.callback(served.stop)
        return served

    def run(self, command: str, user: int = BOB) -> subprocess.CompletedProcess[str]:
        """A shell command of the user's, in the mount."""
        return subprocess.run(
            ["sh", "-e", "-c", f"cd {self.place}\n{command}"],
            **as_user(user),
            env={"PATH": os.environ["PATH"], "HOME": str(self._folder), "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
            check=False,
        )

    def says(self, command: str, user: int = BOB) -> list[str]:
        """Its words; it must succeed."""
        done = self.run(command, user)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split()

    def at_home(self) -> set[str]:
        """Users and groups of all that is in the share."""
        found = [path.lstat() for path in self.root.rglob("*")]
        assert found
        return {f"{each.st_uid}:{each.st_gid}" for each in found}

    def put(self, name: str, user: int, mode: int) -> None:
        """A file at home, before it is mounted."""
        path = self.root / name
        path.write_text(f"{name}'s\n")
        os.chown(path, user, group_of(user))
        path.chmod(mode)


Make = Callable[..., Laptop]


@pytest.fixture
def laptop(short_path: Path) -> Iterator[Make]:
    with ExitStack() as leave:
        yield lambda home, owner=ADA: Laptop(short_path, home, owner, leave)


homes = pytest.mark.parametrize("home", [ADA, ROOT], ids=["ada's home", "root's home"])


@homes
def test_what_is_made_is_bobs_here_and_adas_at_home(laptop: Make, home: int) -> None:
    """Every write said "Permission denied"."""
    here = laptop(home)
    here.mount()
    here.says(
        "mkdir folder; echo one > folder/file; echo two >> folder/file; chmod 640 folder/file\n"
        "ln -s file folder/link; ln folder/file folder/again; echo top > top\n"
        f"chown {whose(BOB)} folder/file folder; chgrp {group_of(BOB)} top; mv top folder"
    )
    numbers = here.says("find . -printf '%U:%G '; stat -c %u:%g folder/* .")
    assert set(numbers) == {whose(BOB)}
    assert here.at_home() == {whose(ADA)}
    assert (here.root / "folder/file").read_text() == "one\ntwo\n"
    assert (here.root / "folder/file").stat().st_mode & 0o777 == 0o640


@homes
def test_what_ada_has_made_is_bobs_to_write(laptop: Make, home: int) -> None:
    here = laptop(home)
    here.put("letter", ADA, 0o600)
    here.mount()
    assert here.says("stat -c %u:%g:%a letter; ls -ln letter | cut -d' ' -f3") == [
        f"{whose(BOB)}:600",
        str(BOB),
    ]
    here.says("echo more >> letter; chmod 644 letter; touch -d 2020-01-01 letter; sync letter")
    assert (here.root / "letter").read_text() == "letter's\nmore\n"
    assert here.at_home() == {whose(ADA)}


@homes
@pytest.mark.parametrize(("user", "shown"), [(EVE, EVE), (BOB, ADA), (ROOT, ROOT)])
def test_a_file_of_somebody_else_at_home_is_not_bobs(
    laptop: Make, home: int, user: int, shown: int
) -> None:
    """Also where that user has at home the number that bob has here."""
    here = laptop(home)
    here.put("secret", user, 0o600)
    here.mount()
    assert here.says("stat -c %u:%g secret; ls -n | tail -1 | cut -d' ' -f3,4") == [
        whose(shown),
        *(str(shown), str(group_of(shown))),
    ]
    for command in ("echo x >> secret", "cat secret", "chmod 666 secret", f"chown {BOB} secret"):
        refused = here.run(command)
        assert refused.returncode != 0, command
        assert "denied" in refused.stderr or "not permitted" in refused.stderr
    assert (here.root / "secret").read_text() == "secret's\n"


@homes
@requires("git")
def test_unmodified_programs_work_in_it(laptop: Make, home: int) -> None:
    here = laptop(home)
    here.mount()
    here.says(
        "git init -q work; cd work; git config user.email bob@example.org; git config user.name b\n"
        "mkdir -p a/b; seq 1000 > a/b/c; ln -s c a/b/d; chmod 700 a\n"
        "git add .; git commit -qm one\n"
        'git fsck --strict; test -z "$(git status --porcelain)"; cd ..\n'
        "cp -a work copy; diff -r work copy; tar -cf work.tar work; mkdir out\n"
        "tar -xpf work.tar -C out; diff -r work out/work; git -C out/work log --oneline\n"
    )
    assert set(here.says("find . -printf '%U:%G '")) == {whose(BOB)}
    assert here.at_home() == {whose(ADA)}


@homes
def test_what_is_made_without_home_is_adas_when_the_next_mount_has_sent_it(
    laptop: Make, home: int
) -> None:
    here = laptop(home)
    served = here.mount()
    here.says("mkdir folder; echo one > folder/one")
    here.link.cut()
    here.says("echo two > folder/two; umask 222; echo three > folder/three")
    assert here.says("stat -c %u:%g folder/two") == [whose(BOB)]
    assert served.stop() == UnavailableError.exit_code
    here.mount()
    assert here.says("cat folder/one folder/two folder/three; stat -c %u:%g folder/two") == [
        *("one", "two", "three"),
        whose(BOB),
    ]
    assert here.at_home() == {whose(ADA)}


def test_after_kill_9_the_share_is_mounted_there_again(laptop: Make) -> None:
    """The dead mount stayed, and "no folder" was to be mounted at."""
    here = laptop(ADA)
    served = here.mount()
    here.says("echo one > one")
    served.process.kill()
    served.process.wait()
    here.mount()
    assert here.says("cat one; stat -c %u:%g one") == ["one", whose(BOB)]


def test_a_share_of_roots_keeps_its_numbers(laptop: Make) -> None:
    """Else root's files would be shown as bob's, and what bob makes would be root's."""
    here = laptop(ROOT, ROOT)
    here.root.chmod(0o1777)
    here.put("of-root", ROOT, 0o644)
    here.mount()
    here.says("echo mine > mine")
    assert here.says("stat -c %u:%g of-root mine") == [whose(ROOT), whose(BOB)]
    assert here.at_home() == {whose(ROOT), whose(BOB)}
    assert here.run("echo x >> of-root").returncode != 0


def test_a_mount_of_roots_keeps_numbers(laptop: Make) -> None:
    here = laptop(ROOT)
    here.put("of-ada", ADA, 0o600)
    here.mount(ROOT)
    here.says("echo mine > mine; chown 7:8 mine", ROOT)
    assert here.says("stat -c %u:%g of-ada mine", ROOT) == [whose(ADA), "7:8"]
    assert here.at_home() == {whose(ADA), "7:8"}


def test_homes_own_mount_keeps_numbers(laptop: Make) -> None:
    here = laptop(ADA)
    here.put("of-ada", ADA, 0o644)
    here.mount(BOB, SAME)
    assert here.says("stat -c %u:%g of-ada") == [whose(ADA)]
    assert here.run("echo x >> of-ada").returncode != 0


MADE = """
import os
os.umask(0)
for place in (".", "own"):
    for mode in (0, 0o077, 0o200, 0o444):
        file = os.open(f"{place}/{mode:o}", os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        os.write(file, b"first ")
        os.fsync(file)
        os.pwrite(file, b"second", 6)
        assert os.pread(file, 99, 0) == b"first second", (place, mode)
        os.close(file)
file = os.open("200", os.O_WRONLY | os.O_APPEND)
os.write(file, b" third")
os.close(file)
"""


@homes
def test_a_file_is_made_with_a_mode_that_denies_its_owner(laptop: Make, home: int) -> None:
    """It gave EACCES, and left an empty file."""
    here = laptop(home)
    served = here.mount()
    (here.root / "made.py").write_text(MADE)
    here.says("mkdir own; python3 made.py; rm made.py")
    served.stop()
    found = {p.relative_to(here.root): p for p in here.root.rglob("*") if p.is_file()}
    assert len(found) == 8
    for name, path in found.items():
        third = b" third" if str(name) == "200" else b""
        assert path.read_bytes() == b"first second" + third
        assert path.stat().st_mode & 0o7777 == int(path.name, 8)
