# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Debian packages into a tar archive, by mmdebstrap.

`--mode=unshare` is used by everybody: an ordinary user gets a user namespace (which needs a line in
/etc/subuid and /etc/subgid), root gets the mount and process namespaces alone and needs no such
line. Either way what is mounted dies with the namespace, whatever happens to this process.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from images.sources import PackageSources, host_sources
from satchel.errors import CapacityError, SatchelError, UnavailableError, UnsupportedError

SOURCE_DATE_EPOCH = 1_700_000_000
"""Seconds since 1970: the newest time that a file of an image has."""

STEPS = 9
"""How often `bootstrap` reports a step, about."""

_TAIL_LINES = 12
_ENDS_WITHIN_SECONDS = 60.0

_EXPLAINED: tuple[tuple[str, type[SatchelError], str], ...] = (
    ("No space left", CapacityError, "free some space in the temporary folder (TMPDIR)"),
    ("subuid", UnsupportedError, "as root: usermod --add-subuids 100000-165535 "
     "--add-subgids 100000-165535 YOUR-USER"),
    ("newuidmap", UnsupportedError, "install uidmap"),
    ("unshare", UnsupportedError, "allow user namespaces, or build as root"),
    ("Could not resolve", UnavailableError, "check the network and apt's sources"),
    ("Failed to fetch", UnavailableError, "check the network, and run `apt-get update` as root"),
    ("Unable to locate package", UnavailableError, "run `apt-get update` as root, or name in the "
     "recipe a release that has it: debian = \"bookworm\""),
)  # fmt: skip


def bootstrap(
    target: Path,
    sources: PackageSources,
    packages: Sequence[str],
    *,
    variant: str = "essential",
    over: Path | None = None,
    dpkg: Sequence[str] = (),
    step: Callable[[], None],
) -> None:
    """Write the packages and what they depend on, without device nodes, as a tar at `target`.

    variant: "essential" for a system that runs, "extract" for the bare files of the packages.
    over: a tar made by this function that they are installed on top of. dpkg: its options, which
    stay in force in the system that is made. step: called as the work goes on. Raises
    UnsupportedError, UnavailableError or CapacityError with the end of mmdebstrap's log. Leaves no
    process, mount or temporary file, whatever is raised; `target` may be there in part then.
    """
    argv = ["mmdebstrap", "--mode=unshare", "--format=tar", "--skip=output/dev"]
    argv += [f"--variant={'custom' if over else variant}", f"--include={','.join(packages)}"]
    argv += [f"--aptopt={option}" for option in sources.options]
    argv += [f"--dpkgopt={option}" for option in dpkg]
    if over:
        argv.append(f"--setup-hook=tar-in {shlex.quote(str(over))} /")
        argv.append('--setup-hook=mkdir -p "$1/dev"')  # mmdebstrap fills one that is there
    argv += [sources.codename, str(target), "-"]
    log: deque[str] = deque(maxlen=_TAIL_LINES)
    with _temporary_folder() as temporary, tempfile.TemporaryFile("w+") as lines:
        lines.write("\n".join(sources.lines))
        lines.seek(0)
        process = _start(argv, lines, temporary)
        assert process.stderr
        try:
            for line in process.stderr:
                log.append(line.rstrip())
                if line.startswith("I: "):
                    step()
        finally:
            _end(process)
    if process.returncode != 0:
        raise _failure(process.returncode, "\n".join(log))


def release_files(target: Path, release: str, packages: Sequence[str]) -> None:
    """The files of packages of a Debian release, as a tar at `target`. Raises as `bootstrap`, and
    SourcesMissing."""
    host = host_sources()
    sources = host if release == host.codename else host.of(release)
    bootstrap(target, sources, packages, step=lambda: None)


def _start(argv: list[str], lines: IO[str], temporary: Path) -> subprocess.Popen[str]:
    """In a session of its own, so that an interrupt reaches it once, from here."""
    environment = {"SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH), "LC_ALL": "C.UTF-8"}
    try:
        return subprocess.Popen(
            argv,
            stdin=lines,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env={**os.environ, **environment, "TMPDIR": str(temporary)},
        )
    except FileNotFoundError as error:
        raise UnsupportedError(
            "no mmdebstrap on this host", fix="install the Debian package mmdebstrap"
        ) from error


def _end(process: subprocess.Popen[str]) -> None:
    """Wait for its end, which it is at unless this is an interrupt; nothing of it runs on."""
    with process, contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        if sys.exc_info()[0]:
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(_ENDS_WITHIN_SECONDS)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Where mmdebstrap unpacks. What it leaves there belongs to the user namespace's numbers."""
    folder = Path(tempfile.mkdtemp(prefix="satchel-image-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if left := [str(path) for path in folder.glob("*/*")]:
            argv = ["mmdebstrap", "--unshare-helper", "rm", "-rf", "--", *left]
            subprocess.run(argv, check=False, capture_output=True)
            shutil.rmtree(folder, ignore_errors=True)


def _failure(status: int, log: str) -> SatchelError:
    matching = (row for row in _EXPLAINED if row[0] in log)
    _, kind, fix = next(matching, ("", UnavailableError, ""))
    what = f"mmdebstrap failed with exit status {status}"
    return kind(what, why=f"its last words:\n{log}\n", fix=fix)
