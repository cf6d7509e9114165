# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A Debian with nothing but apt, in which programs run as on a machine of its own.

    root = CleanRoot.make(folder / "root", "bookworm", include=["systemd"])
    root.run("apt-get", "install", "-y", "/packages/satchel.deb")
    with root.booted() as machine:
        machine.run("systemctl", "is-active", "satchel-surrogate")

Root is changed by pivot_root and not by chroot, inside of which nobody may make user namespaces.
Its /dev has a `fuse` that all may open, as udev makes it.
"""

import contextlib
import shlex
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 3600.0
"""An end for what hangs, on a machine that others use too."""

BOOT_SECONDS = 600.0

ENTER = """
set -e
root=$1
shift
mount --bind "$root" "$root"
cd "$root"
mount -t tmpfs -o mode=755 tmpfs dev
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "fuse 10 229"; do
  set -- $node "$@"
  mknod -m 666 "dev/$1" c "$2" "$3"
  shift 3
done
mkdir dev/pts dev/shm
mount -t devpts -o ptmxmode=666,newinstance devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
mkdir -p before
pivot_root . before
umount -l before
exec env -i container=test HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
"""
"""Run by a shell in fresh namespaces, with the root and the command as its arguments."""

NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")

WITHOUT = ("systemd-udevd.service", "systemd-udev-trigger.service", "getty.target")
"""Units that want hardware."""


@dataclass(frozen=True)
class CleanRoot:
    """See the module."""

    folder: Path

    @classmethod
    def make(
        cls, folder: Path, suite: str, include: list[str], without: Sequence[str] = WITHOUT
    ) -> "CleanRoot":
        """From the package sources that this machine has. include: packages beside apt. without:
        units that never start there."""
        argv = ["mmdebstrap", "--quiet", "--mode=root", "--variant=apt"]
        argv += [f"--include={','.join(['ca-certificates', *include])}", suite, str(folder)]
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=SECONDS)
        for name in ("/etc/resolv.conf", "/etc/hosts"):
            (folder / name.lstrip("/")).write_bytes(Path(name).read_bytes())
        for unit in without:
            (folder / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
            (folder / "etc/systemd/system" / unit).symlink_to("/dev/null")
        return cls(folder)

    def run(self, *argv: str, seconds: float = SECONDS) -> str:
        """Run a program there to its end, with this machine's network; what it printed."""
        return _checked([*self._entered(), *argv], seconds)

    @contextlib.contextmanager
    def booted(self) -> Iterator["Machine"]:
        """With systemd as the first process, until the block ends."""
        own = ("--cgroup", "--uts", "--ipc", "--net")
        argv = [*self._entered(*own), "/lib/systemd/systemd", "--log-target=null"]
        with (self.folder.parent / "boot.log").open("wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield Contained(_first_process(process))
        finally:
            process.kill()  # its child, and with it all that is in there, goes too
            process.wait()

    def _entered(self, *namespaces: str) -> list[str]:
        argv = ["unshare", *NAMESPACES, *namespaces]
        return [*argv, "bash", "-c", ENTER, "clean-root", str(self.folder)]


class Machine(ABC):
    """One that has booted, with systemd as its first process."""

    @abstractmethod
    def run(self, *argv: str, user: str = "root", seconds: float = SECONDS) -> str:
        """Run a program there as that user; what it printed. Fails unless it ends with 0."""

    def property_of(self, unit: str, name: str) -> str:
        """As `systemctl show` has it."""
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()


@dataclass(frozen=True)
class Contained(Machine):
    """In namespaces, on this host's kernel. pid: of its first process, out here."""

    pid: int

    def run(self, *argv: str, user: str = "root", seconds: float = SECONDS) -> str:
        enter = ["nsenter", f"--target={self.pid}", "-m", "-p", "-u", "-i", "-n", "-C", "--"]
        command = shlex.join(argv)
        return _checked([*enter, "/bin/su", "-", user, "-c", command], seconds)


def _first_process(unshare: subprocess.Popen[bytes]) -> int:
    """Once it is systemd, and its units are up."""
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline and unshare.poll() is None:
        children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text().strip() == "systemd":
            with contextlib.suppress(AssertionError):
                waiting = ("systemctl", "is-system-running", "--wait")
                Contained(int(children[0])).run(*waiting, seconds=BOOT_SECONDS)
                return int(children[0])
        time.sleep(0.1)
    raise AssertionError("systemd has not booted")


def _checked(argv: list[str], seconds: float) -> str:
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, check=False, capture_output=True, text=True, timeout=seconds
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{shlex.join(argv[-4:])} ended with {done.returncode}: {said}"
    return done.stdout
