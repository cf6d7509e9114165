# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The recorder: real uses of a folder under strace.

    python -m papers.ofs.record [USE...] [--to FOLDER]
    python -m papers.ofs.record --statistics

About a minute and a half each. Needs strace, and what the uses need: `scripts/bootstrap --peers`
installs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from console import run_program
from papers.ofs.follow import TRACED, Follower
from papers.ofs.statistics import HEADING, row_of
from papers.ofs.trace import FOLDER, SUFFIX, Trace

USES = ("compiler", "editor", "git", "ledger", "mail", "photo")

PATIENCE = 900.0
"""Seconds that a use may take."""


def record(argv: list[str], share: Path, use: str) -> Trace:
    """Runs a program in the folder `share` under strace: what it and all that it starts did to
    files there. Raises CalledProcessError if it fails. The threads of this process take no part."""
    share = share.resolve()
    sizes = {str(path): path.stat().st_size for path in share.rglob("*") if path.is_file()}
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        told = Path(name) / "calls"
        calls = ",".join(TRACED)
        strace = ["strace", "-f", "-ttt", "-T", "-y", "-s", "0", "-o", str(told), "-qq"]
        strace += ["--seccomp-bpf", "-e", f"trace={calls}", "-e", "signal=none"]
        environment = os.environ | {"PYTHONPATH": str(Path.cwd()), "HOME": name}
        subprocess.run([*strace, *argv], check=True, cwd=share, env=environment, timeout=PATIENCE)
        with told.open(encoding="ascii", errors="surrogateescape") as lines:
            return Follower(str(share), sizes, str(share)).follow(lines, use)


def record_use(use: str) -> Trace:
    """One of USES, in a new folder."""
    with tempfile.TemporaryDirectory(prefix="satchel-share-") as name:
        program = [sys.executable, "-m", f"papers.ofs.uses.{use}"]
        subprocess.run([*program, "prepare", name], check=True)
        return record([*program, "use", name], Path(name), use)


@click.command()
@click.argument("uses", nargs=-1, type=click.Choice(USES))
@click.option("--to", type=click.Path(path_type=Path, file_okay=False), default=FOLDER)
@click.option("--statistics", is_flag=True, help="Only tell of those that there are.")
def program(uses: tuple[str, ...], to: Path, statistics: bool) -> None:
    """Record these USES, or all."""
    if statistics:
        click.echo(HEADING)
        for path in sorted(to.glob(f"*{SUFFIX}")):
            click.echo(row_of(Trace.load(path)))
        return
    to.mkdir(exist_ok=True)
    for use in uses or USES:
        path = record_use(use).save(to)
        click.echo(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    run_program(program, "papers.ofs.record")


__all__ = ["USES", "record", "record_use"]
