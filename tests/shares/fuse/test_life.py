# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How sessions begin and end, and what is left then: nothing."""

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from shares.fuse import MountFailed, MountSession, SessionOptions
from tests.needs import requires
from tests.shares.fuse.conftest import Mounter
from tests.shares.fuse.passthrough import Passthrough
from tests.waiting import eventually

pytestmark = requires("fuse", "fusermount3")

ROOT = Path(__file__).parents[3]
SERVE = """
import sys
from pathlib import Path
from shares.fuse import MountSession
from tests.shares.fuse.passthrough import Passthrough
with MountSession(Passthrough(Path(sys.argv[1])), Path(sys.argv[2])) as session:
    print("mounted", flush=True)
    session.run()
"""

STOPS = """
import sys, threading
from pathlib import Path
from shares.fuse import MountSession
from tests.shares.fuse.passthrough import Passthrough
over = False
def busy():
    while not over:
        pass
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
folders = [Path(sys.argv[1], name) for name in ("behind", "mountpoint")]
for folder in folders:
    folder.mkdir()
for _ in range(10):
    with MountSession(Passthrough(folders[0]), folders[1]) as session:
        serving = threading.Thread(target=session.run)
        serving.start()
        folders[1].stat()  # who takes this call has another thread begin
    serving.join()
    print("ended", flush=True)
over = True
"""


def serve(behind: Path, mountpoint: Path) -> "subprocess.Popen[str]":
    """A process of its own with a session that runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(behind), str(mountpoint)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "mounted\n"
    return process


def is_empty(folder: Path) -> bool:
    try:
        return os.listdir(folder) == []
    except OSError:
        return False  # a mount that nobody serves


@pytest.fixture
def mountpoint(tmp_path: Path) -> Path:
    path = tmp_path / "mountpoint"
    path.mkdir()
    return path


def test_open_files_give_an_error_when_the_session_is_stopped(
    mount: Mounter, tree: Passthrough
) -> None:
    mounted = mount(tree)
    descriptor = os.open(mounted.path / "file", os.O_RDWR | os.O_CREAT)
    os.write(descriptor, b"content")
    mounted.session.close()
    assert not mounted.path.is_mount()
    with pytest.raises(OSError) as failed:
        os.pread(descriptor, 1, 0)
    assert failed.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    with contextlib.suppress(OSError):
        os.close(descriptor)
    assert os.listdir(mounted.path) == []


def test_a_session_that_ends_while_its_thread_waits_for_the_gil_leaves_it(tmp_path: Path) -> None:
    """The thread was cancelled there, and nothing of Python went on in the whole process."""
    done = subprocess.run(
        [sys.executable, "-c", STOPS, str(tmp_path)],
        cwd=ROOT,
        check=True,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "ended\n" * 10


def test_an_unmount_from_outside_ends_the_session(mount: Mounter, tree: Passthrough) -> None:
    mounted = mount(tree)
    assert os.listdir(mounted.path) == []
    subprocess.run(["fusermount3", "-u", str(mounted.path)], check=True)
    mounted.thread.join()
    assert not mounted.path.is_mount()
    with pytest.raises(OSError) as ended:
        mounted.session.invalidate(1)
    assert ended.value.errno == errno.ENOTCONN


def test_a_session_is_stopped_by_its_own_tree(mount: Mounter, tmp_path: Path) -> None:
    class Stopping(Passthrough):
        def read_link(self, file: int) -> bytes:
            mounted.session.stop()
            return b"target"

    (tmp_path / "behind").mkdir()
    (tmp_path / "behind" / "link").symlink_to("x")
    mounted = mount(Stopping(tmp_path / "behind"))
    assert os.readlink(mounted.path / "link") == "target"
    mounted.thread.join()


def test_a_session_that_never_ran_leaves_nothing(tmp_path: Path, mountpoint: Path) -> None:
    MountSession(Passthrough(tmp_path), mountpoint).close()
    assert not mountpoint.is_mount()


def test_a_session_runs_once(mount: Mounter, tree: Passthrough) -> None:
    mounted = mount(tree)
    os.listdir(mounted.path)
    with pytest.raises(RuntimeError):
        mounted.session.run()


def test_a_killed_process_leaves_no_mount(tmp_path: Path, mountpoint: Path) -> None:
    with serve(tmp_path, mountpoint) as process:
        assert "mountpoint" in os.listdir(mountpoint)
        process.kill()
        process.wait()
        assert eventually(lambda: is_empty(mountpoint))


def test_ctrl_c_unmounts(tmp_path: Path, mountpoint: Path) -> None:
    with serve(tmp_path, mountpoint) as process:
        assert "mountpoint" in os.listdir(mountpoint)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert "KeyboardInterrupt" in said
    assert not mountpoint.is_mount()


def test_a_mount_that_cannot_be_says_why(tmp_path: Path) -> None:
    with pytest.raises(MountFailed, match="No such file"):
        MountSession(Passthrough(tmp_path), tmp_path / "missing")


def test_options_are_the_mounts(mount: Mounter, tree: Passthrough) -> None:
    mounted = mount(tree, SessionOptions(name="a,b", read_only=True, threads=1))
    line = next(
        line for line in Path("/proc/mounts").read_text().splitlines() if str(mounted.path) in line
    )
    assert line.split()[0] == "a,b"
    assert line.split()[2] == "fuse.satchel"
    with pytest.raises(OSError) as refused:
        (mounted.path / "x").touch()
    assert refused.value.errno == errno.EROFS


@requires("root", "setpriv", "unshare")
def test_no_root_is_needed(tmp_path: Path) -> None:
    (tmp_path / "behind").mkdir()
    (tmp_path / "mountpoint").mkdir()
    script = f"""
import sys, os, threading
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from shares.fuse import MountSession
from tests.shares.fuse.passthrough import Passthrough
session = MountSession(Passthrough(Path("behind")), Path("mountpoint"))
thread = threading.Thread(target=session.run)
thread.start()
Path("mountpoint/file").write_text(str(os.getuid()))
print(Path("behind/file").read_text())
session.close()
thread.join()
print(os.path.ismount("mountpoint"))
"""
    for path in (tmp_path, tmp_path / "behind", tmp_path / "mountpoint"):
        os.chown(path, 65534, 65534)
    # As udev has it, which not every container does: /dev/fuse is everybody's.
    os.mknod(tmp_path / "fuse", stat.S_IFCHR | 0o666, os.makedev(10, 229))
    (tmp_path / "fuse").chmod(0o666)
    command = (
        f"mount --bind {tmp_path}/fuse /dev/fuse && exec setpriv --reuid=65534 --regid=65534"
        ' --clear-groups "$@"'
    )
    argv = ["unshare", "--mount", "sh", "-c", command, "sh", sys.executable, "-c", script]
    with open_to_all(tmp_path):
        done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (done.stderr, done.stdout) == ("", "65534\nFalse\n")


class open_to_all:  # noqa: N801
    """The folders above a path may be entered by everybody meanwhile."""

    def __init__(self, path: Path) -> None:
        self.modes = {parent: parent.stat().st_mode for parent in path.parents}

    def __enter__(self) -> None:
        for parent, mode in self.modes.items():
            parent.chmod(mode | 0o111)

    def __exit__(self, *_: object) -> None:
        for parent, mode in self.modes.items():
            parent.chmod(mode)


def test_sessions_one_after_another_leave_no_threads(mount: Mounter, tree: Passthrough) -> None:
    before = len(os.listdir("/proc/self/task"))
    for _ in range(10):
        mounted = mount(tree)
        (mounted.path / "file").write_text("x")
        mounted.session.close()
        mounted.thread.join()
    assert eventually(lambda: len(os.listdir("/proc/self/task")) <= before)
