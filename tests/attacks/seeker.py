# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program in the place of QEMU or nbdkit that looks for a block of another tenant.

`python -I -S seeker.py TARGETS`: TARGETS is JSON. needle: bytes of that block, in hexadecimal;
roots: folders to search, "/" in a cell; map: the program's own block map; places: words of block
maps that lead to the block, which no attacker knows so well. It prints, as JSON, where it found the
needle, and how many sockets and blocks it read.
"""

import contextlib
import json
import mmap
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

HEADER = 4096
MOST = 256
BLOCK = 4096


def files(roots: list[str]) -> Iterator[str]:
    """All but the system's own."""
    for root in roots:
        for folder, names, found in os.walk(root):
            if folder == "/":
                names[:] = [name for name in names if name not in ("usr", "proc", "sys", "dev")]
            for name in found:
                yield str(Path(folder, name))


def has(needle: bytes, path: str) -> bool:
    try:
        with (
            Path(path).open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content,
        ):
            return content.find(needle) >= 0
    except (OSError, ValueError):
        return False


def held(needle: bytes) -> list[str]:
    """Search the folders that this process holds open."""
    found = []
    for number in range(3, 1024):
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.fstat(number).st_mode):
                os.fchdir(number)
                found += [f"{number}/{name}" for name in Path().iterdir() if has(needle, str(name))]
    return found


def ask(path: str, needle: bytes, blocks: int) -> tuple[list[str], int]:
    """Blocks of volumes at a socket that speaks as a miss server does."""
    found, read = [], 0
    for volume in range(3):
        for first in range(0, blocks, MOST):
            count = min(MOST, blocks - first)
            with socket.socket(socket.AF_UNIX) as one, contextlib.suppress(OSError):
                one.settimeout(5.0)
                one.connect(path)
                one.sendall(struct.pack("<IIQII", 0x51544153, volume, first, count, 0))
                answer = b""
                while len(answer) < 8 + count * BLOCK:
                    piece = one.recv(1 << 20)
                    if not piece:
                        break
                    answer += piece
                    if len(answer) == 8 and answer[:4] != b"SATC":
                        break
                read += (len(answer) - 8) // BLOCK if len(answer) > 8 else 0
                if needle in answer:
                    found.append(f"{path} volume {volume} from {first}")
    return found, read


def main() -> None:
    targets = json.loads(sys.argv[1])
    needle = bytes.fromhex(targets["needle"])
    everything = [*files(targets["roots"])]
    sockets = [path for path in everything if stat.S_ISSOCK(os.lstat(path).st_mode)]
    found = [path for path in everything if path not in sockets and has(needle, path)]
    found += held(needle)
    blocks = (Path(targets["map"]).stat().st_size - HEADER) // 12
    read = 0
    for words in ((), targets["places"]):
        with contextlib.suppress(OSError), Path(targets["map"]).open("r+b") as file:
            for number, word in enumerate(words):
                file.seek(HEADER + 8 * number)
                file.write(struct.pack("<Q", word))
        for path in sockets:
            more, count = ask(path, needle, blocks)
            found += more
            read += count
    print(json.dumps({"found": found, "sockets": len(sockets), "read": read}), flush=True)


main()
