# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A removable device for the testbed: an exFAT file system in a file, or a folder where the
machine can mount none. It can be pulled out and put in again."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from satchel.errors import UnavailableError

logger = logging.getLogger(__name__)

SIZE = 2 << 30

SERVER = "mount.exfat-fuse"
"""The program that is the file system, one process for each mount."""

DETACH_SECONDS = 120.0
"""How long the file system may write back what was not synced, on a device that is slow or busy."""

KEPT_SECONDS = 30.0
"""After which it is told to end: a program with mounts of its own may have a copy of this one, for
which the file system would go on."""


class Stick:
    """A device of 2 GiB with exFAT, mounted at `root` while it is plugged in.

    kind: what it is here, for people
    """

    def __init__(self, folder: Path, *, size: int = SIZE, copy_of: Path | None = None) -> None:
        """Make the device and plug it in. It is empty, or has what the device in the file
        `copy_of` has, whose size counts then."""
        folder.mkdir(parents=True, exist_ok=True)
        self.root = folder / "stick"
        self.root.mkdir()
        self.image = folder / "stick.img"
        self._loop: str | None = None
        self.kind = "exFAT on a loop device" if self._make(size, copy_of) else "a folder"

    @property
    def is_device(self) -> bool:
        """Whether it can be pulled out here."""
        return self.image.exists()

    def plug(self, *, read_only: bool = False) -> None:
        """Mount it. Nothing where it is a folder, or plugged in."""
        if not self.is_device or self._loop is not None:
            return
        self._clear()
        options = ["--read-only"] if read_only else []
        found = _run("losetup", *options, "--find", "--show", str(self.image))
        self._loop = found.stdout.strip()
        try:
            _run(SERVER, *(["-o", "ro"] if read_only else []), self._loop, str(self.root))
        except BaseException:
            self._detach()
            raise

    def eject(self) -> None:
        """Unmount it, everything on it. Nothing where it is a folder, or out."""
        if self._loop is not None:
            _run("umount", str(self.root))
            self._detach()

    def pull(self, *, seen: bool = True) -> None:
        """Take it out, whoever is using it: what is open on it gives errors from now on, and what
        was not synced may be lost. Nothing where it is a folder, or out.

        seen: the system has noticed, and shows an empty folder in its place
        """
        if self._loop is None:
            return
        for pid in _servers_of(self._loop):
            os.kill(pid, signal.SIGKILL)
        if seen:
            _run("umount", "--lazy", str(self.root))
        self._detach()

    def close(self) -> None:
        """Put it away, whoever is using it and whatever of it is still there."""
        try:
            self.eject()
        except subprocess.CalledProcessError:
            self.pull()
        self._clear()

    def _clear(self) -> None:
        """Take away a mount whose device was pulled out."""
        while _is_mounted(self.root):
            _run("umount", "--lazy", str(self.root))

    def _make(self, size: int, copy_of: Path | None) -> bool:
        try:
            if copy_of is not None:
                _run("cp", "--sparse=always", "--reflink=auto", str(copy_of), str(self.image))
            else:
                with self.image.open("wb") as file:
                    file.truncate(size)
                _run("mkfs.exfat", "-n", "SATCHEL", str(self.image))
            self.plug()
        except (OSError, subprocess.CalledProcessError) as error:
            logger.warning("no exFAT here (%s): the medium is a folder", error)
            self.image.unlink(missing_ok=True)
            return False
        return True

    def _detach(self) -> None:
        """Waits for the file system to have let the device go; raises UnavailableError if it does
        not."""
        assert self._loop is not None
        loop, self._loop = self._loop, None
        began = time.monotonic()
        while servers := _servers_of(loop):
            waited = time.monotonic() - began
            if waited > KEPT_SECONDS:
                for pid in servers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGTERM)
            if waited > DETACH_SECONDS:
                raise UnavailableError(f"the file system on {loop} does not end")
            time.sleep(0.01)
        _run("losetup", "--detach", loop)


def _servers_of(loop: str) -> list[int]:
    """The processes that are the file system on that device."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[0].endswith(SERVER.encode()) and loop.encode() in words:
                found.append(int(path.parent.name))
    return found


def _is_mounted(folder: Path) -> bool:
    """Also where what is mounted does not answer any more."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == str(folder) for line in lines)


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which(argv[0], path="/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise FileNotFoundError(f"no program {argv[0]}")
    return subprocess.run(
        [program, *argv[1:]], check=True, capture_output=True, text=True, timeout=60
    )
