# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Small whole disks that look as if they started: tables by sfdisk, file systems by mke2fs."""

import subprocess
from pathlib import Path

MIB = 1 << 20
GPT, MBR = "label: gpt\nstart=2048, type=L\n", "label: dos\nstart=2048, type=83\n"
WITH_SYSTEM = "label: gpt\nstart=2048, size=2048, type=U\nstart=4096, type=L\n"


def small_disk(
    path: Path,
    table: str = GPT,
    *,
    code: bytes = b"\xeb\x63\x90",
    paths: tuple[str, ...] = ("/usr/bin/cloud-init",),
    at_mib: int = 1,
    size_mib: int = 16,
) -> Path:
    """A raw disk. table: sfdisk's. code: of its first sector. paths: files of its ext4 file
    system, which begins there."""
    with path.open("xb") as file:
        file.truncate(size_mib * MIB)
    subprocess.run(["sfdisk", "-q", path], input=table, text=True, check=True)
    root = path.with_name(f"{path.name}.root")
    for one in paths:
        (root / one[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / one[1:]).touch()
    root.mkdir(exist_ok=True)
    made = ["mke2fs", "-q", "-t", "ext4", "-d", str(root), "-E", f"offset={at_mib * MIB}"]
    subprocess.run([*made, str(path), f"{(size_mib - at_mib - 1) * 1024}k"], check=True)
    with path.open("r+b") as file:
        file.write(code)
    return path
