# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where the processes of one machine run: on the host as they are, or shut in (package `sandbox`).

Engines that start processes are handed a room and do not know which kind it is.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from satchel.process import PreparedProgram, Process


class Confinement(Protocol):
    """Thread-safe. Paths are the same inside and outside."""

    @property
    def confined(self) -> bool:
        """Whether processes see nothing but what the room was made with. Then a process can make no
        file, sees other process numbers, and takes its sockets as descriptors."""

    @property
    def mountinfo(self) -> Path:
        """The mounts as its processes see them, see proc(5)."""

    def start(
        self,
        command: Sequence[str],
        output: Path,
        *,
        launcher: Sequence[str] = (),
        inherited: Sequence[int] = (),
        listener: int | None = None,
        fuse: Path | None = None,
        machine: bool = False,
    ) -> Process:
        """See Process.start. For rooms that are confined: listener: a listening socket that the
        program takes by socket activation (LISTEN_FDS). fuse: a folder that is mounted for it, and
        is `/dev/fd/9` in its arguments. machine: it is the machine itself, and no helper of it.
        Raises OSError and UnavailableError.
        """

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, with its output."""

    def prepare(self, command: Sequence[str]) -> PreparedProgram:
        """A program that is about to run to its end. Raises OSError and UnavailableError."""

    def give(self, path: Path) -> None:
        """Let the room's processes use a file of ours that they can see."""

    def weigh(self, weight: int) -> None:
        """Give it that part of processors and disk while others want them: 1 to 1000, 100 until
        this is called. A room without control groups keeps its part."""

    def end(self) -> None:
        """End all that runs in it. Harmless the second time."""


class NoConfinement:
    """No room of its own: processes run beside ours, with our rights."""

    confined = False
    mountinfo = Path("/proc/self/mountinfo")

    def start(
        self,
        command: Sequence[str],
        output: Path,
        *,
        launcher: Sequence[str] = (),
        inherited: Sequence[int] = (),
        listener: int | None = None,
        fuse: Path | None = None,
        machine: bool = False,
    ) -> Process:
        del machine
        assert listener is None
        assert fuse is None
        return Process.start(command, output, launcher=launcher, inherited=inherited)

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return self.prepare(command).run()

    def prepare(self, command: Sequence[str]) -> PreparedProgram:
        def begin(argv: Sequence[str], go: int, output: int) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                argv, stdin=go, stdout=output, stderr=output, start_new_session=True
            )

        return PreparedProgram(command, begin)

    def give(self, path: Path) -> None:
        """They have our rights."""

    def weigh(self, weight: int) -> None:
        """They share ours."""

    def end(self) -> None:
        """Its processes are ended by their owners."""


HOST: Confinement = NoConfinement()


def owned(path: Path, owner: int) -> None:
    """Make `path` itself that user's and group's, if it is not; no link is followed."""
    if path.lstat().st_uid != owner:
        os.chown(path, owner, owner, follow_symlinks=False)
