# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""vim in a terminal: somebody writes Python in three files, at the speed of a person.

Threads: `vim`, and `lint`: a job that vim starts after each save, ruff, whose findings go to a file
that vim reads. Procedures: `format` (ruff rewrites the file that was saved, vim reads it again) and
`search` (grep over all files).
"""

from __future__ import annotations

import fcntl
import os
import pty
import random
import select
import shutil
import struct
import sys
import termios
import time
from pathlib import Path

from papers.ofs.uses.marks import MARK, main

SOURCE = Path(__file__).resolve().parent.parent
FILES = ("plan.py", "trace.py", "plots.py")

RUFF = Path(sys.executable).with_name("ruff")
ROUNDS = 12
WORDS = ("value", "figure", "name", "folder", "line", "trace", "count", "begin", "last", "kind")

VIMRC = f"""\
set nocompatible updatetime=4000 updatecount=200 autoread
function Lint()
  let name = expand('%')
  let told = name .. '.lint'
  call job_start(['sh', '-c', 'test -r {MARK}role/lint; exec {RUFF} check --exit-zero
    \\ --output-format concise ' .. name .. ' > ' .. told])
endfunction
autocmd BufWritePost *.py call Lint()
"""

ESCAPE = "\x1b"


def prepare(folder: Path) -> None:
    for name in FILES:
        shutil.copy(SOURCE / name, folder)
    (folder / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n", encoding="utf-8")
    (folder / "vimrc").write_text(VIMRC, encoding="utf-8")


class _Terminal:
    """vim at the other end of a pseudo-terminal; what it draws is thrown away."""

    def __init__(self, folder: Path) -> None:
        self._pid, self._end = pty.fork()
        if not self._pid:
            os.chdir(folder)
            os.environ.update(TERM="xterm", HOME=str(folder), SHELL="/bin/sh")
            os.execlp("vim", "vim", "-u", "vimrc", "-i", "NONE", FILES[0])
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))

    def rest(self, seconds: float) -> None:
        """Nothing is typed; vim draws."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self._end], [], [], left)[0]:
                os.read(self._end, 1 << 16)

    def type(self, text: str, dice: random.Random) -> None:
        for key in text:
            os.write(self._end, key.encode())
            self.rest(dice.uniform(0.02, 0.14))

    def command(self, line: str, dice: random.Random) -> None:
        self.type(f"{ESCAPE}:{line}\r", dice)
        self.rest(0.3)

    def mark(self, name: str) -> None:
        """Asks for a mark, as fast as a mapped key does it."""
        asked = f"{ESCAPE}:call filereadable('{MARK}procedure/{name}')\r"
        os.write(self._end, asked.encode())
        self.rest(0.1)

    def end(self) -> None:
        os.write(self._end, f"{ESCAPE}:qa!\r".encode())
        until = time.monotonic() + 10
        while time.monotonic() < until:
            if os.waitpid(self._pid, os.WNOHANG)[0]:
                return
            try:
                self.rest(0.1)
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("vim did not end")


def _text(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=9))


def use(folder: Path) -> None:
    dice = random.Random("editor")
    vim = _Terminal(folder)
    vim.rest(1.0)
    for number in range(ROUNDS):
        name = FILES[number % len(FILES)] if number % 2 else ""
        if name:
            vim.command(f"e {name}", dice)
        vim.command(str(dice.randint(20, 90)), dice)
        vim.type(f"oimport {dice.choice(WORDS)}_{number}  # {_text(dice)}\r", dice)
        vim.command("w", dice)
        vim.rest(dice.uniform(1.0, 3.0))
        vim.command("cgetfile %.lint", dice)
        if number % 3 == 2:
            vim.mark("format")
            vim.command(f"silent !{RUFF} format --quiet %", dice)
            vim.command("e!", dice)
            vim.mark("")
        if number % 4 == 3:
            vim.mark("search")
            vim.command(f"silent grep! -n {dice.choice(WORDS)} *.py *.lint", dice)
            vim.rest(1.0)
            vim.mark("")
    vim.end()


if __name__ == "__main__":
    main(prepare, use)
