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
    """What one command took."""

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

    @abstractmethod
    def get(self, name: str, target: Path) -> Run:
        """Write the image of that name into `target`, which is not there."""

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

    def get(self, name: str, target: Path) -> Run:
        return self._home("export", name, target)

    def _home(self, *words: str | Path) -> Run:
        return self._run(Path(sys.executable).parent / "satchel-home", "--store", self.kept, *words)


class SatchelSettled(Satchel):
    """What the background does after an import is not in its time, but in its size."""

    name = "satchel, settled"

    def put(self, image: Path) -> Run:
        run = super().put(image)
        self._home("settle")
        return run


class Copy(Keeper):
    name = "cp --sparse"
    program = "cp"
    deduplicates = False

    def init(self) -> None:
        self.kept.mkdir()

    def put(self, image: Path) -> Run:
        return self._run("cp", "--sparse=always", image, self.kept / image.stem)

    def get(self, name: str, target: Path) -> Run:
        return self._run("cp", "--sparse=always", self.kept / name, target)

    def bytes(self) -> int:
        return sum(path.stat().st_blocks * 512 for path in self.kept.iterdir())


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

    def get(self, name: str, target: Path) -> Run:
        run = self._borg("extract", "--sparse", f"{self.kept}::{name}")
        next(self.folder.glob(f"{name}.*")).replace(target)
        return run

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


class Restic(Keeper):
    name = "restic"
    program = "restic"

    def init(self) -> None:
        self._restic("init", "--repository-version=2")

    def put(self, image: Path) -> Run:
        return self._restic("backup", "--tag", image.stem, image.name, cwd=image.parent)

    def get(self, name: str, target: Path) -> Run:
        run = self._restic("restore", "latest", "--tag", name, "--target", self.folder / "out")
        next((self.folder / "out").rglob(f"{name}.*")).replace(target)
        return run

    def _restic(self, *words: str | Path, cwd: Path | None = None) -> Run:
        return self._run(
            "restic", "--repo", self.kept, *words, cwd=cwd, RESTIC_PASSWORD="bench",
            RESTIC_CACHE_DIR=str(self.folder / "cache"), GOMAXPROCS=str(THREADS),
        )  # fmt: skip


class Casync(Keeper):
    name = "casync"
    program = "casync"

    def init(self) -> None:
        self.kept.mkdir()

    def put(self, image: Path) -> Run:
        index = self.kept / f"{image.stem}.caibx"
        return self._run("casync", "make", f"--store={self.kept}", index, image)

    def get(self, name: str, target: Path) -> Run:
        index = self.kept / f"{name}.caibx"
        return self._run("casync", "extract", f"--store={self.kept}", index, target)


class Desync(Keeper):
    name = "desync, 64 KB chunks"
    program = "desync"

    def init(self) -> None:
        self.kept.mkdir()

    def put(self, image: Path) -> Run:
        index = self.kept / f"{image.stem}.caibx"
        return self._run(
            "desync", "make", "-n", str(THREADS), "-m", "16:64:256", "-s", self.kept, index, image
        )

    def get(self, name: str, target: Path) -> Run:
        index = self.kept / f"{name}.caibx"
        return self._run("desync", "extract", "-s", self.kept, index, target)


class Zpaq(Keeper):
    name = "zpaq -m1"
    program = "zpaq"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept = folder / "kept.zpaq"

    def init(self) -> None:
        """It begins with the first image."""

    def put(self, image: Path) -> Run:
        return self._run(
            "zpaq", "add", self.kept, image.name, "-m1", f"-t{THREADS}", cwd=image.parent
        )

    def get(self, name: str, target: Path) -> Run:
        return self._run("zpaq", "extract", self.kept, f"{name}.raw", "-to", target)


class Zstd(Keeper):
    name = "zstd -T2 -1"
    program = "zstd"
    deduplicates = False

    def init(self) -> None:
        self.kept.mkdir()

    def put(self, image: Path) -> Run:
        return self._run(
            "zstd", "-q", "-1", f"-T{THREADS}", image, "-o", self.kept / f"{image.stem}.zst"
        )

    def get(self, name: str, target: Path) -> Run:
        return self._run("zstd", "-q", "-d", self.kept / f"{name}.zst", "-o", target)


class Qcow2(Keeper):
    name = "qemu-img, qcow2 with zstd"
    program = "qemu-img"
    deduplicates = False

    def init(self) -> None:
        self.kept.mkdir()

    def put(self, image: Path) -> Run:
        return self._run(
            "qemu-img", "convert", "-c", "-W", "-m", str(THREADS), "-f", "raw", "-O", "qcow2",
            "-o", "compression_type=zstd", image, self.kept / f"{image.stem}.qcow2",
        )  # fmt: skip

    def get(self, name: str, target: Path) -> Run:
        source = self.kept / f"{name}.qcow2"
        return self._run("qemu-img", "convert", "-f", "qcow2", "-O", "raw", source, target)


OTHERS: tuple[type[Keeper], ...] = (Restic, Casync, Desync, Zpaq, Zstd, Qcow2, Copy)
"""Those that take long or do not deduplicate, measured where the machine has them."""
