# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Tools that keep disk images, Satchel's store among them, each in the way that it is meant to run.

Each command is a process of its own, with its start and with whatever it does to be durable.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from satchel.errors import SatchelError

THREADS = 2
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Run:
    """The cost of one command."""

    seconds: float
    processor: float  # seconds of all its threads
    peak_mb: float


def run(argv: Iterable[str | Path], folder: Path, environment: Mapping[str, str]) -> Run:
    """Run a command to its end, nothing else of ours being written meanwhile.

    Raises SatchelError with the end of its output when it fails.
    """
    os.sync()
    output = folder / "output"
    with output.open("w+b") as log:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in argv],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, peak_mb(process.pid))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
        seconds = time.perf_counter() - began
    if process.returncode != 0:
        why = output.read_text(encoding="utf-8", errors="replace")[-1000:]
        raise SatchelError(f"{process.args!r} failed", why=why)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(seconds, processor, peak)


def peak_mb(pid: int) -> float:
    """The most memory that a process had since its program was started; 0 when it is gone.

    What wait4 tells is at least what this process has, because the child began as a copy of it.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(status.split("VmHWM:")[1].split()[0]) / 1024 if "VmHWM:" in status else 0.0


class Keeper(ABC):
    """One tool with one setting, on a folder of its own. Images have distinct names."""

    name: str
    deduplicates = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = folder / "kept"
        folder.mkdir(parents=True)

    @classmethod
    def here(cls) -> bool:
        """Whether this machine has it."""
        return shutil.which(cls.program) is not None

    program: str

    @abstractmethod
    def init(self) -> None: ...

    @abstractmethod
    def put(self, image: Path) -> Run:
        """Keep an image under its file name."""

    def files(self) -> list[Path]:
        """All that it keeps."""
        found = [self.kept, *self.kept.rglob("*")]
        return [path for path in found if path.is_file()]

    def bytes(self) -> int:
        """Bytes of all files that it keeps."""
        return sum(path.stat().st_size for path in self.files())

    def _run(self, *argv: str | Path, cwd: Path | None = None, **environment: str) -> Run:
        return run(argv, cwd or self.folder, environment)


class Satchel(Keeper):
    name = "satchel"
    program = sys.executable

    def init(self) -> None:
        self._home("init")

    def put(self, image: Path) -> Run:
        return self._home("import", image, image.stem)

    def _home(self, *words: str | Path) -> Run:
        return self._run(Path(sys.executable).parent / "satchel-home", "--store", self.kept, *words)


class Borg(Keeper):
    program = "borg"
    chunker: str

    def init(self) -> None:
        self._borg("init", "--encryption=none", self.kept)

    def put(self, image: Path) -> Run:
        where = f"{self.kept}::{image.stem}"
        return self._borg(
            "create", "--compression=lz4", f"--chunker-params={self.chunker}", "--sparse",
            "--files-cache=disabled", where, image.name, cwd=image.parent,
        )  # fmt: skip

    def _borg(self, *words: str | Path, cwd: Path | None = None) -> Run:
        return self._run(
            "borg", *words, cwd=cwd, BORG_BASE_DIR=str(self.folder / "base"),
            BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK="yes",
        )  # fmt: skip


class BorgFixed(Borg):
    name = "borg, 4 MB chunks, lz4"
    chunker = "fixed,4194304"


class BorgBlocks(Borg):
    name = "borg, 4 KB chunks, lz4"
    chunker = "fixed,4096"
