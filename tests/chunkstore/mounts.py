# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Small file systems of a test's own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def tmpfs(root: Path, size: str = "64m") -> Iterator[None]:
    """Mount an empty file system of `size` at `root`, which is made. Needs root."""
    with _mounted(root, "-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
        yield


@contextmanager
def ext4(root: Path, size: str = "64m") -> Iterator[None]:
    """The same, of ext4 in a file beside it, without room that only root may use."""
    image = root.with_suffix(".ext4")
    subprocess.run(["truncate", "-s", size, str(image)], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    with _mounted(root, "-o", "loop", str(image)):
        yield


@contextmanager
def _mounted(root: Path, *how: str) -> Iterator[None]:
    root.mkdir()
    subprocess.run(["mount", *how, str(root)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(root)], check=True)


def fill(root: Path) -> Path:
    """Leave no byte free in it, as others do with a disk. The file that takes all the room."""
    with suppress(OSError), (root / "others").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return root / "others"


def remount(root: Path, option: str) -> None:
    """Change an option of it: ro, rw, size=..."""
    subprocess.run(["mount", "-o", f"remount,{option}", str(root)], check=True)


@contextmanager
def exfat(folder: Path, size: int) -> Iterator[Path]:
    """A mounted exFAT file system of `size` bytes, everything for it in `folder`. Needs root."""
    with device(folder, "exfat", size) as made:
        root = folder / "exfat"
        root.mkdir()
        subprocess.run(["mount.exfat-fuse", made, str(root)], check=True, capture_output=True)
        try:
            yield root
        finally:
            subprocess.run(["umount", str(root)], check=True)


@contextmanager
def device(folder: Path, kind: str, size: int = 64 << 20) -> Iterator[str]:
    """A block device of `size` bytes with an empty file system of that kind, in a file in `folder`.
    Needs root."""
    image = folder / f"{kind}.img"
    with image.open("wb") as file:
        file.truncate(size)
    subprocess.run([f"mkfs.{kind}", str(image)], check=True, capture_output=True)
    argv = ["losetup", "--find", "--show", str(image)]
    made = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield made
    finally:
        subprocess.run(["losetup", "--detach", made], check=True)
