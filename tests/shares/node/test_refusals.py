# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What mounts refuse: names that are too long, owners that home may not give, some of
fallocate."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from homeserver.shares import ShareRegistry, Shares
from shares.home import ShareRecord
from tests.needs import requires
from tests.shares.node.mounted import SHARE, MountProcess
from tests.shares.node.test_mounts import Mounts, world

__all__ = ["world"]

pytestmark = requires("fuse", "root")

LONGEST = "n" * 255
TOO_LONG = "n" * 256
NOBODY = 65534
LEASE = 2.0
READY = "ready"

NAMED: dict[str, Callable[[Path, str], object]] = {
    "lookup": lambda folder, name: os.lstat(folder / name),
    "stat": lambda folder, name: os.stat(folder / name),
    "access": lambda folder, name: os.chmod(folder / name, 0o600),
    "open": lambda folder, name: os.open(folder / name, os.O_RDONLY),
    "create": lambda folder, name: os.open(folder / name, os.O_CREAT | os.O_WRONLY),
    "truncate": lambda folder, name: os.truncate(folder / name, 0),
    "mknod": lambda folder, name: os.mknod(folder / name),
    "mkdir": lambda folder, name: os.mkdir(folder / name),
    "rmdir": lambda folder, name: os.rmdir(folder / name),
    "unlink": lambda folder, name: os.unlink(folder / name),
    "symlink": lambda folder, name: os.symlink("there", folder / name),
    "readlink": lambda folder, name: os.readlink(folder / name),
    "link": lambda folder, name: os.link(folder / "there", folder / name),
    "link from": lambda folder, name: os.link(folder / name, folder / "new"),
    "rename": lambda folder, name: os.rename(folder / "there", folder / name),
    "rename from": lambda folder, name: os.rename(folder / name, folder / "new"),
    "list": lambda folder, name: os.listdir(folder / name),
    "below it": lambda folder, name: os.lstat(folder / name / "file"),
}


def refusal(call: Callable[..., object], *arguments: object) -> int | None:
    """The errno of the call; None where it did what it was asked."""
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return None


def test_a_name_of_256_bytes_is_too_long_in_every_call(world: Mounts, tmp_path: Path) -> None:
    plain, mount = tmp_path / "plain", world.mount()
    plain.mkdir()
    for folder in (plain, mount, mount / "own"):  # in a folder of its own a node asks nobody
        folder.mkdir(exist_ok=True)
        (folder / "there").write_text("there")
        found = {name: refusal(call, folder, TOO_LONG) for name, call in NAMED.items()}
        assert found == dict.fromkeys(NAMED, errno.ENAMETOOLONG)
        assert (folder / "there").read_text() == "there"


def test_a_name_of_255_bytes_is_none_too_long(world: Mounts) -> None:
    mount, other = world.mount(), world.mount()
    (mount / LONGEST).write_text("the longest")
    assert (other / LONGEST).read_text() == "the longest"
    (other / LONGEST).rename(other / ("m" * 255))
    assert [path.name for path in mount.iterdir()] == ["m" * 255]


def test_fallocate_that_moves_content_is_refused_and_changes_nothing(world: Mounts) -> None:
    file = world.mount() / "file"
    file.write_bytes(b"content")
    libc = ctypes.CDLL(None, use_errno=True)
    with file.open("r+b", buffering=0) as opened:
        for mode in (8, 32, 64):
            place = ctypes.c_int64(0), ctypes.c_int64(4096)
            assert libc.fallocate(opened.fileno(), mode, *place) == -1
            assert ctypes.get_errno() == errno.EOPNOTSUPP
        assert file.read_bytes() == b"content"
        os.posix_fallocate(opened.fileno(), 0, 10_000)
    assert file.read_bytes() == b"content".ljust(10_000, b"\0")


def test_an_owner_is_changed_where_home_may(world: Mounts) -> None:
    mount, other = world.mount(), world.mount()
    (mount / "file").write_text("root's")
    os.chown(mount / "file", NOBODY, NOBODY)
    for folder in (mount, other, world.root):
        now = (folder / "file").stat()
        assert (now.st_uid, now.st_gid) == (NOBODY, NOBODY)


@pytest.fixture
def nobodys(short_path: Path) -> Iterator[Path]:
    """A mount of a share whose home is another user's, who may give nothing away."""
    folder = short_path / "h"
    folder.mkdir()
    short_path.chmod(0o755)
    os.chown(folder, NOBODY, NOBODY)
    home = subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )
    assert home.stdin and home.stdout
    assert home.stdout.readline().strip() == READY
    mount = MountProcess(folder / "s", short_path / "m", short_path / "cache")
    yield mount.mountpoint
    mount.close()
    home.stdin.close()
    home.wait(60)
    home.stdout.close()


def test_an_owner_that_home_may_not_give_is_refused(nobodys: Path) -> None:
    (nobodys / "folder").mkdir()
    (nobodys / "file").write_text("home's")
    (nobodys / "folder" / "own").write_text("made ahead")
    for path in (nobodys / "file", nobodys / "folder", nobodys / "folder" / "own"):
        opened = os.open(path, os.O_RDONLY)
        for owner in ((1234, -1), (-1, 1234), (0, 0)):
            assert refusal(os.chown, path, *owner) == errno.EPERM
            assert refusal(os.fchown, opened, *owner) == errno.EPERM
        os.chown(path, NOBODY, NOBODY)  # what it is: as tar and cp do it with each file
        os.close(opened)
        now = path.stat()
        assert (now.st_uid, now.st_gid) == (NOBODY, NOBODY)


def main(folder: str) -> None:
    """A home of one share in that folder, until its standard input ends."""
    root = Path(folder) / "root"
    root.mkdir()
    shares = Shares(ShareRegistry(Path(folder) / "shares"), Path(folder) / "s", LEASE)
    shares.add(ShareRecord(SHARE, str(root)))
    print(READY, flush=True)
    sys.stdin.read()
    shares.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
