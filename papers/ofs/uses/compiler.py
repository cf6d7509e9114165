# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""gcc and make: somebody changes the examples of libzstd, builds two jobs at a time, and runs them.

Threads: of the compilations every second one is `worker` with all that it runs, as a distributed
compiler would have it. Procedures: `build` (all of make) and `try` (the programs are run).
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

from papers.ofs.uses.marks import MARK, main, procedure, role, think

SOURCE = Path("/usr/share/doc/libzstd-dev/examples")
"""Of Debian's package libzstd-dev."""

PROGRAMS = (
    "simple_compression",
    "simple_decompression",
    "dictionary_compression",
    "dictionary_decompression",
    "multiple_simple_compression",
    "streaming_compression",
    "streaming_decompression",
    "streaming_memory_usage",
)
ROUNDS = 14

MAKEFILE = f"""\
PROGRAMS = {" ".join(PROGRAMS)}
WORKERS = {" ".join(f"{name}.o" for name in PROGRAMS[::2])}
all: $(PROGRAMS)
$(PROGRAMS:=.o): %.o: %.c common.h
\t@if [ -n "$(filter $@,$(WORKERS))" ]; then test -r {MARK}role/worker; fi; $(CC) -O1 -c -o $@ $<
$(PROGRAMS): %: %.o
\t@$(CC) -o $@ $< -lzstd
"""


def prepare(folder: Path) -> None:
    """Built once."""
    for name in (*(f"{program}.c" for program in PROGRAMS), "common.h"):
        shutil.copy(SOURCE / name, folder)
    (folder / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    (folder / "text").write_text("to be compressed again and again\n" * 3000, encoding="utf-8")
    (folder / "tmp").mkdir()
    _make(folder)


def _make(folder: Path) -> None:
    """Temporary files of the compiler are in the folder too: it is one tree for all of them."""
    subprocess.run(["make", "-s", "-j2"], cwd=folder, check=True, env=_environment(folder))


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "TMPDIR": str(folder / "tmp")}


def use(folder: Path) -> None:
    role("person")
    dice = random.Random("compiler")
    for number in range(ROUNDS):
        think(dice, 2.5)
        for program in dice.sample(PROGRAMS, 3 if number % 7 != 3 else len(PROGRAMS)):
            _edit(folder / f"{program}.c", number)
        with procedure("build"):
            _make(folder)
        think(dice, 1.0)
        with procedure("try"):
            _try(folder)


def _edit(path: Path, number: int) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(
        f"{text}\nint changed_{number}(void) {{ return {number}; }}\n", encoding="utf-8"
    )


def _try(folder: Path) -> None:
    """What was compressed comes back."""
    (folder / "text.zst").unlink(missing_ok=True)
    for program in ("simple_compression", "streaming_compression"):
        _run(folder, program, "text")
    _run(folder, "simple_decompression", "text.zst")


def _run(folder: Path, program: str, argument: str) -> None:
    subprocess.run(
        [str(folder / program), argument], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )


if __name__ == "__main__":
    main(prepare, use)
