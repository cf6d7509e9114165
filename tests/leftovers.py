# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""After the last test nothing of the run is left: no process, no mount, no namespace.

Other runs may go on at the same time, so each thing is told by whose it is. A process carries the
run's mark in its environment, however it was started and whoever adopted it, and there is the
variable by which pytest tells the test that started it. What runs in a cell has no environment of
ours; it is told by a path of the run's folders among its arguments. A mount is under the run's
temporary folders. A network namespace has its owner's pid in its name (testbed/namespaces.py): this
process, or one that is gone without having taken its namespace along.
"""

import contextlib
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

MARK = "SATCHEL_TEST_RUN"
SHORT_PREFIX = f"satchel-test-{os.getpid()}-"
GRACE_SECONDS = 5.0


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the run if something that it started or mounted is left over; ends what is left."""
    run = uuid.uuid4().hex
    os.environ[MARK] = run
    folders = run_folders(tmp_path_factory)
    before = _namespaces()
    yield
    deadline = time.monotonic() + GRACE_SECONDS
    while (processes := _processes(run, folders)) and time.monotonic() < deadline:
        time.sleep(0.1)
    found = [f"process {pid}: {what}" for pid, what in processes.items()]
    found += [f"mount {path}" for path, _, _ in mounts() if path.startswith(folders)]
    found += [f"network namespace {name}" for name in sorted(_namespaces() - before)]
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if found:
        pytest.fail("left over after the run:\n  " + "\n  ".join(found), pytrace=False)


def _processes(run: str, folders: tuple[str, ...]) -> dict[int, str]:
    """Every other living process that carries the run's mark, or whose environment was cleared and
    that names one of its folders: its command and its test."""
    mark = f"{MARK}={run}".encode()
    named = [folder.encode() for folder in folders]
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        pid = int(folder.name)
        ours = mark in variables or (_is_cleared(variables) and _names_one(words, named))
        if ours and pid != os.getpid():
            tests = [v.decode() for v in variables if v.startswith(b"PYTEST_CURRENT_TEST=")]
            command = b" ".join(words).decode(errors="replace").strip()
            found[pid] = f"{command} (started by {tests[0][20:] if tests else 'no test'})"
    return found


def _is_cleared(variables: list[bytes]) -> bool:
    """Whether an environment is one that a cell gives; the watchdog's has more in it."""
    return b"HOME=/" in variables or not any(variables)


def _names_one(words: list[bytes], folders: list[bytes]) -> bool:
    return any(folder in word for word in words for folder in folders)


def run_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What the paths of this run's temporary files begin with."""
    short = str(Path(tempfile.gettempdir()) / SHORT_PREFIX)
    return f"{tmp_path_factory.getbasetemp()}/", short


def mounts() -> list[tuple[str, str, str]]:
    """Mountpoint, device (major:minor) and kind of file system of each mount of this namespace."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mounted, source = line.split(" - ")
        found.append((mounted.split()[4], mounted.split()[2], source.split()[0]))
    return found


def _namespaces() -> set[str]:
    """Named namespaces that are this process's, or nobody's."""
    owners = {name: name.split("-")[1] for name in _names() if name.startswith("satchel-")}
    others = {folder.name for folder in Path("/proc").glob("[0-9]*")} - {str(os.getpid())}
    return {name for name, owner in owners.items() if owner not in others}


def _names() -> list[str]:
    folder = Path("/run/netns")
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def below(folder: Path) -> list[str]:
    """Living processes that have a path in the folder among their arguments, and mounts in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_bytes()
            if os.fsencode(f"{folder}/") in arguments:
                found.append(arguments.replace(b"\0", b" ").decode())
    return found + [path for path, _, _ in mounts() if path.startswith(f"{folder}/")]
