# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One cell: how it is made, entered, found again and ended.

Bubblewrap makes the namespaces and the files that are seen, and runs a shell that does nothing: the
cell's first process, whose end is the end of all others. It is told to stay only once its number is
on disk. A daemon that dies before leaves it at the end of its input, and it ends: at no moment is
there a cell that nobody knows of. Bubblewrap has both ends of the pipe in which it says that
number: were we gone when it does, and no reader left, it would die of that, and its child wait for
it for ever.

The kernel ends a first process only when whoever started the others has been told of their end. So
ours are waited for with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import enter, groups, stage
from sandbox.access import let_read
from satchel.confinement import owned
from satchel.errors import UnavailableError
from satchel.process import Child, PreparedProgram, Process, printable_tail
from satchel.readiness import readable

logger = logging.getLogger(__name__)

PID_FILE = "cell.pid"
MONITOR_FILE = "bwrap.pid"
"""Of the bubblewrap that waits for the cell's first process, and ends just after it."""

RECORD = "cell.json"
LOG = "cell.log"

START_SECONDS = 30.0
"""How long bubblewrap, or the way into a cell, may take on a busy host."""

END_SECONDS = 10.0

INSIDE = 1000
"""The user and group that processes have inside."""

FILE_LIMIT = 16 << 20
"""Bytes to which a machine's process may let a file grow by writing; its disks are elsewhere."""

TASK_LIMIT = 512
DESCRIPTOR_LIMIT = 1024
DATA_LIMIT = 1 << 30
"""Of a process's own memory, where no control group limits it: guest memory is a file and does not
count."""

_WAIT = "echo; read _ || exit; exec </dev/null >/dev/null; sleep infinity & wait"
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_DEVICES = ("null", "zero", "full", "random", "urandom", "fuse")


class CellFailed(UnavailableError):
    """A cell cannot be created or entered now; why carries bubblewrap's message."""


@dataclass(frozen=True)
class CellMounts:
    """What the processes of a replica see of the host.

    folder: the replica's own, as it is; nothing in it can be changed but what follows.
    readable: other files and folders.
    held: folders that are not seen, and that a helper has open; its user must be let read them.
    machine, helpers: files that exist already and that processes of that part may write.
    volumes: the same, for helpers, who cannot make them shorter: others have them mapped.
    mounted: a folder where a helper serves files that may be written; None: nowhere.
    """

    folder: Path
    readable: Sequence[Path] = ()
    held: Sequence[Path] = ()
    machine: Sequence[Path] = ()
    helpers: Sequence[Path] = ()
    volumes: Sequence[Path] = ()
    mounted: Path | None = None

    @property
    def writable(self) -> list[Path]:
        return [*self.machine, *self.helpers, *self.volumes]


@dataclass(frozen=True)
class CellPlan:
    """What a cell is made of.

    uid: outside, of a pool; None: ours. devices: beside those that every cell has, with the groups
    that open them. file_limit: bytes of the largest file that helpers write. shares: see Share.
    """

    seen: CellMounts
    uid: int | None
    devices: Sequence[Path]
    file_limit: int
    shares: dict[str, groups.ResourceShare]


class Cell:
    """See satchel.confinement.Confinement. It outlives the process that made it, and can be
    adopted."""

    confined = True

    def __init__(
        self,
        folder: Path,
        record: dict[str, Any],
        first: Process,
        held: groups.Groups,
        bubblewrap: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._folder = folder
        self._started: list[Process] = []
        self._starting = threading.Lock()
        self._bubblewrap = bubblewrap
        self._record = record
        self._first = first
        self._room = os.pidfd_open(first.pid)
        self.groups = held

    @classmethod
    def make(cls, plan: CellPlan) -> Cell:
        """Raises CellFailed, AccessError for a file that its user cannot be let read, and leaves
        nothing behind then."""
        folder = plan.seen.folder.absolute()
        try:
            _hand_over(plan)
        except OSError as error:
            raise CellFailed("cannot make a cell", why=str(error)) from error
        known = hashlib.sha256(os.fsencode(folder)).hexdigest()[:6]
        held = groups.make(f"{folder.name}-{known}-{os.getpid()}", plan.shares)
        try:
            return _open(plan, folder, held)
        except BaseException:
            held.remove()
            raise

    @classmethod
    def adopt(cls, folder: Path) -> Cell | None:
        """The cell that an earlier process of ours made for that folder; None if there is none."""
        folder = folder.absolute()
        first = Process.named(folder / PID_FILE)
        try:
            record = json.loads((folder / RECORD).read_bytes())
        except (OSError, ValueError):
            return None
        if first is None or f"{folder}/{RECORD}" not in first.command:
            return None
        held = {part: [Path(one) for one in paths] for part, paths in record["groups"].items()}
        return cls(folder, record, first, groups.Groups(held, tuple(record["controllers"])))

    @property
    def mountinfo(self) -> Path:
        return Path(f"/proc/{self._first.pid}/mountinfo")

    @property
    def pid(self) -> int:
        """Its first process, whose end is the end of all."""
        return self._first.pid

    def start(
        self,
        command: Sequence[str],
        output: Path,
        *,
        launcher: Sequence[str] = (),
        inherited: Sequence[int] = (),
        listener: int | None = None,
        fuse: Path | None = None,
        machine: bool = False,
    ) -> Process:
        with output.open("ab") as file:
            order = self._order(machine, listener, fuse)
            keep = [*inherited, *([listener] if listener is not None else [])]
            child = self._enter([*launcher, *command], order, keep, file.fileno(), output)
        try:
            process = Process(child.pid, command, output, child)
        except OSError:
            child.kill()
            child.wait()
            raise
        with self._starting:
            self._started = [*(one for one in self._started if not one.ended()), process]
        return process

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return self.prepare(command).run()

    def prepare(self, command: Sequence[str]) -> PreparedProgram:
        def begin(argv: Sequence[str], go: int, output: int) -> Child:
            order = self._order(False, None, None) | {"threads_only": False}
            return self._enter(argv, order, [], output, self._folder / LOG, go)

        return PreparedProgram(command, begin)

    def give(self, path: Path) -> None:
        owned(path, self._record["uid"])

    def weigh(self, weight: int) -> None:
        self.groups.weigh(weight)

    def end(self) -> None:
        self._first.signal(signal.SIGKILL)
        with self._starting:
            deadline = time.monotonic() + END_SECONDS
            for process in self._started:
                process.ended(max(0.0, deadline - time.monotonic()))
        if not self._first.ended(END_SECONDS):
            logger.error("a cell does not end: %s", self._first.report())
        elif self._bubblewrap is not None:
            self._bubblewrap.wait()
        elif monitor := self._monitor():
            monitor.end(END_SECONDS, END_SECONDS)
        self.groups.remove()
        for name in (PID_FILE, MONITOR_FILE, RECORD):
            (self._folder / name).unlink(missing_ok=True)

    def _monitor(self) -> Process | None:
        """That of a cell which another process of ours made."""
        found = Process.named(self._folder / MONITOR_FILE)
        return found if found and f"{self._folder}/{RECORD}" in found.command else None

    def _order(self, machine: bool, listener: int | None, fuse: Path | None) -> dict[str, Any]:
        record = self._record
        part = "machine" if machine else "helpers"
        limits = {
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": DESCRIPTOR_LIMIT,
            "RLIMIT_NPROC": TASK_LIMIT,
            "RLIMIT_FSIZE": FILE_LIMIT if machine else record["file_limit"],
            "RLIMIT_MEMLOCK": 0,
        }
        if "memory" not in self.groups.controllers:
            limits["RLIMIT_DATA"] = DATA_LIMIT
        return {
            "uid": INSIDE,
            "gid": INSIDE,
            "groups": record["supplementary"],
            "tasks": self.groups.tasks(part),
            "fuse": str(fuse) if fuse else None,
            "listener": listener,
            "writable": record["writable"][part],
            "volumes": [] if machine else record["volumes"],
            "limits": limits,
            "threads_only": not machine,
        }

    def _enter(
        self,
        command: Sequence[str],
        order: dict[str, Any],
        keep: Sequence[int],
        output: int,
        log: Path,
        given: int = subprocess.DEVNULL,
    ) -> Child:
        """The program, started inside. Raises CellFailed."""
        report, write = os.pipe()
        try:
            order = order | {"room": self._room, "report": write}
            argv = [sys.executable, "-I", "-S", enter.__file__, json.dumps(order), "--", *command]
            door = subprocess.Popen(
                argv,
                cwd="/",
                stdin=given,
                stdout=output,
                stderr=output,
                pass_fds=(*keep, self._room, write),
                start_new_session=True,
            )
            os.close(write)
            write = -1
            number = _until_closed(report, START_SECONDS)
            status = door.wait()
        finally:
            os.close(report)
            if write >= 0:
                os.close(write)
        if not number:
            why = f"exit status {status}\n{printable_tail(log)}"
            raise CellFailed(f"cannot start {command[0]} in its cell", why=why)
        return Child(int(number))

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._room)


def _open(plan: CellPlan, folder: Path, held: groups.Groups) -> Cell:
    informed, inform = os.pipe()
    try:
        with (folder / LOG).open("ab") as log:
            bubblewrap = subprocess.Popen(
                _command(plan, folder, inform),
                bufsize=0,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(inform, informed),
                start_new_session=True,
            )
    except OSError as error:
        os.close(informed)
        raise CellFailed("cannot make a cell", why=str(error)) from error
    finally:
        os.close(inform)
    assert bubblewrap.stdin is not None
    assert bubblewrap.stdout is not None
    try:
        first = _first_process(informed, bubblewrap.stdout.fileno(), folder)
        record = _record(plan, held)
        (folder / RECORD).write_text(json.dumps(record), encoding="ascii")
        (folder / MONITOR_FILE).write_text(f"{bubblewrap.pid}\n", encoding="ascii")
        (folder / PID_FILE).write_text(f"{first.pid}\n", encoding="ascii")
        bubblewrap.stdin.write(b"\n")
    except BaseException as error:
        bubblewrap.stdin.close()
        bubblewrap.kill()
        bubblewrap.wait()
        if isinstance(error, OSError):
            raise CellFailed("cannot make a cell", why=str(error)) from error
        raise
    finally:
        os.close(informed)
        bubblewrap.stdout.close()
    bubblewrap.stdin.close()
    return Cell(folder, record, first, held, bubblewrap)


def _first_process(informed: int, ready: int, folder: Path) -> Process:
    """Once everything that it is to see is there. Raises CellFailed."""
    try:
        number = int(json.loads(_until_closed(informed, START_SECONDS))["child-pid"])
        ready_now = _until_closed(ready, START_SECONDS, stop=b"\n")
        if ready_now and (first := Process.find(number, folder / LOG)):
            return first
    except (ValueError, KeyError, TypeError):
        pass
    raise CellFailed("cannot make a cell", why=printable_tail(folder / LOG) or "no answer")


def _until_closed(descriptor: int, seconds: float, stop: bytes | None = None) -> bytes:
    """What comes until the other end is closed, or says `stop`. What came, if it takes longer."""
    deadline = time.monotonic() + seconds
    found = b""
    while stop is None or stop not in found:
        left = deadline - time.monotonic()
        if left <= 0 or not readable([descriptor], left):
            break
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        found += piece
    return found


def _hand_over(plan: CellPlan) -> None:
    if plan.uid is None:
        return
    for path in (plan.seen.folder, *plan.seen.writable):
        owned(path, plan.uid)
    let_read([*plan.seen.readable, *plan.seen.held])


def _record(plan: CellPlan, held: groups.Groups) -> dict[str, Any]:
    seen = plan.seen
    mounted = [seen.mounted] if seen.mounted else []
    return {
        "version": 1,
        "uid": os.geteuid() if plan.uid is None else plan.uid,
        "supplementary": _groups(plan.devices) if plan.uid is not None else [],
        "writable": {
            "machine": _names(seen.machine, mounted, plan.devices, [Path("/dev/null")]),
            "helpers": _names(seen.helpers, mounted, [Path("/dev/null"), Path("/dev/fuse")]),
        },
        "volumes": _names(seen.volumes),
        "file_limit": plan.file_limit,
        "groups": {part: [str(path) for path in paths] for part, paths in held.folders.items()},
        "controllers": list(held.controllers),
    }


def _names(*paths: Sequence[Path]) -> list[str]:
    return [str(path.absolute()) for some in paths for path in some]


def _groups(devices: Sequence[Path]) -> list[int]:
    return [path.stat().st_gid for path in devices if path.stat().st_gid]


def _command(plan: CellPlan, folder: Path, inform: int) -> list[str]:
    """Bubblewrap with its arguments, by way of stage.py where it is to be another user."""
    bound = [("--ro-bind", folder)]
    bound += [("--ro-bind", path.absolute()) for path in plan.seen.readable]
    bound += [("--bind", path.absolute()) for path in plan.seen.writable]
    arguments: list[str] = []
    for number, (option, path) in enumerate(bound):
        source = path if plan.uid is None else Path(stage.STAGE) / str(number)
        arguments += [option, str(source), str(path)]
    command = [*_bubblewrap(plan.devices), "--info-fd", str(inform), *arguments]
    command += ["--remount-ro", "/", "/bin/sh", "-c", _WAIT, f"{folder}/{RECORD}"]
    if plan.uid is None:
        return command
    kept = ",".join(map(str, _groups(plan.devices)))
    starter = [sys.executable, "-I", "-S", stage.__file__, str(plan.uid), kept, str(len(bound))]
    return [*starter, *(str(path) for _, path in bound), "--", *command]


def system_folders() -> list[str]:
    """Return bubblewrap's arguments for the folders, or links into /usr, that programs need."""
    arguments: list[str] = []
    for path in (Path("/", name) for name in _SYSTEM):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def _bubblewrap(devices: Sequence[Path]) -> list[str]:
    """All namespaces but that of control groups, which a cell without /proc does not see; and a
    root with the system's programs, nothing else."""
    program = os.path.realpath(shutil.which("bwrap") or "bwrap")  # PATH may lead out of the stage
    command = [program, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    command += ["--unshare-uts", "--as-pid-1", "--hostname", "cell"]
    command += ["--uid", str(INSIDE), "--gid", str(INSIDE), "--clearenv", "--cap-drop", "ALL"]
    command += ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache"]
    command += ["/etc/ld.so.cache"]
    command += [*system_folders(), "--tmpfs", "/dev"]
    for path in (*(Path("/dev", name) for name in _DEVICES), *devices):
        if path.exists():
            command += ["--dev-bind", str(path), str(path)]
    return [*command, "--dir", f"/dev/fd/{enter.FUSE_FD}", "--remount-ro", "/dev"]
