# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A removable device for the testbed: an exFAT file system in a file, or a folder where the
machine can mount none. It can be pulled out and put in again."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

logger = logging.getLogger(__name__)

SIZE = 2 << 30


class Stick:
    """A device of 2 GiB with exFAT, mounted at `root` while it is plugged in."""

    def __init__(self, folder: Path) -> None:
        """Make the device, empty, and plug it in."""
        folder.mkdir(parents=True, exist_ok=True)
        self.root = folder / "stick"
        self.root.mkdir()
        self._image = folder / "stick.img"
        self._loop: str | None = None
        self.kind = "exFAT on a loop device" if self._format() else "a folder"

    def plug(self) -> None:
        """Mount it. Nothing where it is a folder, or plugged in."""
        if self._image.exists() and self._loop is None:
            found = _run("losetup", "--find", "--show", str(self._image))
            self._loop = found.stdout.strip()
            _run("mount.exfat-fuse", self._loop, str(self.root))

    def pull(self) -> None:
        """Take it out, whoever is using it. Nothing where it is a folder, or out."""
        if self._loop is not None:
            _run("umount", "--lazy", str(self.root))
            _run("losetup", "--detach", self._loop)
            self._loop = None

    def close(self) -> None:
        """Unmount it for good."""
        self.pull()

    def _format(self) -> bool:
        with self._image.open("wb") as file:
            file.truncate(SIZE)
        try:
            _run("mkfs.exfat", "-n", "SATCHEL", str(self._image))
            self.plug()
        except (OSError, subprocess.CalledProcessError) as error:
            logger.warning("no exFAT here (%s): the media is a folder", error)
            if self._loop is not None:
                subprocess.run(["losetup", "--detach", self._loop], check=False)
                self._loop = None
            self._image.unlink()
            return False
        return True


def _run(*argv: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which(argv[0], path="/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise FileNotFoundError(f"no program {argv[0]}")
    return subprocess.run(
        [program, *argv[1:]], check=True, capture_output=True, text=True, timeout=60
    )
