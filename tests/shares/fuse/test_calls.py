# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Every call of a program reaches the tree, and what the tree says reaches the program."""

import ctypes
import errno
import logging
import os
import stat
import threading
from pathlib import Path

import pytest

from shares.node import DirEntry
from shares.protocol import FileId
from tests.needs import requires
from tests.shares.fuse.conftest import Mounter
from tests.shares.fuse.passthrough import Passthrough

pytestmark = requires("fuse", "fusermount3")

NOREPLACE, EXCHANGE = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


def rename(old: Path, new: Path, flags: int) -> int:
    """0 or the errno."""
    failed = _libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags)
    return ctypes.get_errno() if failed else 0


def test_files_are_made_written_and_read(mount: Mounter, tree: Passthrough) -> None:
    path = mount(tree).path / "file"
    content = os.urandom(300_001)
    path.write_bytes(content)
    assert path.read_bytes() == content
    with path.open("r+b") as file:
        file.seek(4090)
        file.write(b"0123456789")
        file.flush()
        os.fsync(file.fileno())
        os.fdatasync(file.fileno())
    assert (tree.root / "file").read_bytes() == content[:4090] + b"0123456789" + content[4100:]
    assert tree.asked.count("sync") == 2


def test_bytes_are_appended(mount: Mounter, tree: Passthrough) -> None:
    path = mount(tree).path / "file"
    for number in range(5):
        with path.open("ab") as file:
            file.write(b"%d" % number * 3000)
    assert path.read_bytes() == b"".join(b"%d" % number * 3000 for number in range(5))


def test_sizes_change(mount: Mounter, tree: Passthrough) -> None:
    path = mount(tree).path / "file"
    path.write_bytes(b"a" * 10_000)
    os.truncate(path, 5)
    assert path.read_bytes() == b"aaaaa"
    with path.open("r+b") as file:
        file.truncate(8)
    assert path.read_bytes() == b"aaaaa\0\0\0"
    with path.open("wb"):
        pass
    assert path.stat().st_size == 0


def test_attributes_change(mount: Mounter, tree: Passthrough) -> None:
    path = mount(tree).path / "file"
    path.touch()
    path.chmod(0o640)
    os.utime(path, ns=(1_000_000_000_000_000_001, -5))
    found = path.stat()
    assert stat.S_IMODE(found.st_mode) == 0o640
    assert (found.st_atime_ns, found.st_mtime_ns) == (1_000_000_000_000_000_001, -5)
    os.utime(path)
    assert path.stat().st_mtime_ns > found.st_mtime_ns
    if os.geteuid() == 0:
        os.chown(path, 1234, -1)
        assert ((tree.root / "file").stat().st_uid, path.stat().st_gid) == (1234, found.st_gid)


def test_names_are_made_and_removed(mount: Mounter, tree: Passthrough) -> None:
    root = mount(tree).path
    (root / "folder").mkdir(mode=0o750)
    os.mknod(root / "folder" / "node", stat.S_IFREG | 0o600)
    os.link(root / "folder" / "node", root / "linked")
    assert (root / "linked").stat().st_nlink == 2
    (root / "link").symlink_to("folder/node")
    assert os.readlink(root / "link") == "folder/node"
    with pytest.raises(OSError, match="not empty") as refused:
        (root / "folder").rmdir()
    assert refused.value.errno == errno.ENOTEMPTY
    (root / "folder" / "node").unlink()
    (root / "folder").rmdir()
    assert sorted(os.listdir(root)) == ["link", "linked"]
    with pytest.raises(PermissionError):
        os.mkfifo(root / "fifo")


def test_names_are_renamed_as_the_flags_say(mount: Mounter, tree: Passthrough) -> None:
    root = mount(tree).path
    for name in ("a", "b"):
        (root / name).write_text(name)
    assert rename(root / "a", root / "b", NOREPLACE) == errno.EEXIST
    assert rename(root / "a", root / "b", EXCHANGE) == 0
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("b", "a")
    assert rename(root / "a", root / "b", 0) == 0
    assert os.listdir(root) == ["b"]
    assert (root / "b").read_text() == "b"


def test_a_file_without_a_name_is_still_there(mount: Mounter, tree: Passthrough) -> None:
    path = mount(tree).path / "file"
    with path.open("w+b") as file:
        file.write(b"content")
        file.flush()
        path.unlink()
        file.seek(0)
        assert file.read() == b"content"


def test_large_folders_are_read_whole_and_again(mount: Mounter, tree: Passthrough) -> None:
    root = mount(tree).path
    names = {f"a rather long name of a file, number {number}" for number in range(3000)}
    for name in names:
        (tree.root / name).touch()
    assert set(os.listdir(root)) == names
    with os.scandir(root) as found:
        assert sum(entry.is_file() and entry.stat().st_size == 0 for entry in found) == 3000
    (tree.root / "new").touch()
    assert set(os.listdir(root)) == names | {"new"}


def test_the_file_system_says_how_full_it_is(mount: Mounter, tree: Passthrough) -> None:
    behind = os.statvfs(tree.root)
    found = os.statvfs(mount(tree).path)
    assert (found.f_frsize, found.f_blocks) == (behind.f_frsize, behind.f_blocks)


def test_what_has_no_operation_is_refused_as_unsupported(mount: Mounter, tree: Passthrough) -> None:
    path = mount(tree).path / "file"
    path.write_bytes(b"1")
    for call in (
        lambda: os.setxattr(path, "user.a", b"b"),
        lambda: os.getxattr(path, "user.a"),
        lambda: os.listxattr(path),
    ):
        with pytest.raises(OSError) as refused:
            call()
        assert refused.value.errno == errno.ENOTSUP


class Failing(Passthrough):
    """lookup fails with `error`."""

    error: Exception = OSError(errno.EDQUOT, "no more")

    def lookup(self, parent: FileId, name: bytes) -> DirEntry:
        raise self.error


def test_an_error_is_the_programs(mount: Mounter, tmp_path: Path) -> None:
    with pytest.raises(OSError) as failed:
        (mount(Failing(tmp_path)).path / "x").stat()
    assert failed.value.errno == errno.EDQUOT


@pytest.mark.parametrize("error", [ValueError("of ours"), OSError("without a number")])
def test_an_error_of_ours_is_eio_and_logged(
    mount: Mounter, tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    tree = Failing(tmp_path)
    tree.error = error
    path = mount(tree).path / "x"
    with caplog.at_level(logging.ERROR, "shares.fuse"), pytest.raises(OSError) as failed:
        path.stat()
    assert failed.value.errno == errno.EIO
    assert "lookup" in caplog.text
    assert str(error) in caplog.text


class Meeting(Passthrough):
    """Reads wait for each other."""

    barrier = threading.Barrier(12)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        self.barrier.wait(60)
        return super().read(handle, offset, size)


def test_many_requests_are_under_way_at_once(mount: Mounter, tmp_path: Path) -> None:
    behind = tmp_path / "behind"
    behind.mkdir()
    root = mount(Meeting(behind)).path
    for number in range(12):
        (behind / str(number)).write_text(str(number))
    read: list[str] = []
    threads = [
        threading.Thread(target=lambda n=number: read.append((root / str(n)).read_text()))
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read, key=int) == [str(number) for number in range(12)]


def test_a_thousand_files_are_open(mount: Mounter, tree: Passthrough) -> None:
    path = mount(tree).path / "file"
    path.write_bytes(b"content")
    descriptors = [os.open(path, os.O_RDONLY) for _ in range(1000)]
    assert len(tree.handles) == 1000
    assert all(os.pread(descriptor, 7, 0) == b"content" for descriptor in descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def test_threads_do_not_disturb_each_other(mount: Mounter, tree: Passthrough) -> None:
    root = mount(tree).path
    wrong: list[str] = []

    def work(number: int) -> None:
        for turn in range(40):
            path = root / f"{number}.{turn}"
            content = os.urandom(5000 + turn)
            path.write_bytes(content)
            os.rename(path, root / f"{number}")
            if (root / f"{number}").read_bytes() != content:
                wrong.append(path.name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(os.listdir(root)) == 16
