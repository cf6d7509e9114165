# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Named network namespaces, who owns them, and what runs in them.

A namespace is called `satchel-PID-START.RUN-HOST`: the process that made it, when that process
started (so that a reused pid is told apart), the how manyth testbed of that process, and the
host. A namespace whose owner is gone is a leftover; any testbed removes leftovers before it
starts, and so does `python -m testbed clean`.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from satchel.errors import SatchelError, UnsupportedError

T = TypeVar("T")

FOLDER = Path("/run/netns")
"""Where `ip netns` keeps names."""

TUN = Path("/dev/net/tun")

CLONE_NEWNET = 0x40000000
CAP_NET_ADMIN = 12
CAP_SYS_ADMIN = 21

TERM_GRACE = 5.0
"""Seconds that a process has between SIGTERM and SIGKILL."""

_NAME = re.compile(r"satchel-(\d+)-(\d+)\.\d+-.+")
_runs = itertools.count(1)
_libc = ctypes.CDLL(None, use_errno=True)


class TestbedFailed(SatchelError):
    """A step of creating the testbed failed. The earlier steps were undone."""

    __test__ = False


def require_privileges() -> None:
    """Raises UnsupportedError unless this process may make namespaces, devices and routes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    effective = int(status.split("CapEff:")[1].split()[0], 16)
    wanted = {"CAP_NET_ADMIN": CAP_NET_ADMIN, "CAP_SYS_ADMIN": CAP_SYS_ADMIN}
    missing = [name for name, bit in wanted.items() if not effective >> bit & 1]
    if missing:
        raise UnsupportedError(
            "cannot make network namespaces",
            why=f"this process lacks {' and '.join(missing)}",
            fix="run it as root (sudo), or in namespaces of your own: unshare --user "
            "--map-root-user --net --mount sh -c 'mount -t tmpfs run /run && exec COMMAND'",
        )
    if not os.access(TUN, os.R_OK | os.W_OK):
        raise UnsupportedError(
            "cannot make network links",
            why=f"{TUN} is missing or not ours to open",
            fix="run `modprobe tun`, or run it as root (sudo)",
        )


def new_prefix() -> str:
    """Starts the names of one more testbed of this process; ends with a hyphen."""
    return f"satchel-{os.getpid()}-{_start_time(os.getpid())}.{next(_runs)}-"


def create(names: Iterable[str]) -> None:
    """Make the namespaces. Raises TestbedFailed; some of them may then exist."""
    ip(batch=[f"netns add {name}" for name in names])


def delete(names: Iterable[str]) -> None:
    """End every process in the namespaces (SIGTERM, then SIGKILL), and remove those that exist."""
    present = [name for name in names if (FOLDER / name).exists()]
    end_processes(present)
    for name in present:
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def leftovers() -> list[str]:
    """Namespaces of testbeds whose process is gone, sorted."""
    if not FOLDER.is_dir():
        return []
    return sorted(entry.name for entry in FOLDER.iterdir() if _is_orphan(entry.name))


def clean() -> list[str]:
    """Remove what dead testbeds left, with the processes in it. Returns the names removed."""
    names = leftovers()
    delete(names)
    return names


def processes(names: Iterable[str]) -> list[int]:
    """Pids of all processes in the namespaces, and in cells that processes there have made.

    A cell has a network of its own. Its first process is a child of the one that made it and begins
    a pid namespace, by which the others in it are known.
    """
    inodes = set()
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            inodes.add((FOLDER / name).stat().st_ino)
    found, others = set[int](), dict[int, tuple[int, int]]()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if (folder / "ns/net").stat().st_ino in inodes:
                    found.add(int(folder.name))
                    continue
                room = (folder / "ns/pid").stat().st_ino
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                others[int(folder.name)] = int(parent), room
    rooms = {room for parent, room in others.values() if parent in found}
    rooms.discard(Path("/proc/self/ns/pid").stat().st_ino)
    return [*found, *(pid for pid, (_, room) in others.items() if room in rooms)]


def kill_processes(names: Sequence[str]) -> None:
    """SIGKILL to every process in the namespaces; they are gone on return. As in a power cut, none
    of them sees another one end."""
    for pid in processes(names):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    _signal_processes(names, signal.SIGKILL, TERM_GRACE)


def end_processes(names: Sequence[str]) -> None:
    """SIGTERM to every process in the namespaces, SIGKILL to what is left after a while."""
    _signal_processes(names, signal.SIGTERM, TERM_GRACE)
    kill_processes(names)


def _signal_processes(names: Sequence[str], how: signal.Signals, patience: float) -> None:
    """Once to each process, also to those that appear meanwhile; until none is left."""
    signalled: set[int] = set()
    deadline = time.monotonic() + patience
    while (pids := processes(names)) and time.monotonic() < deadline:
        for pid in set(pids) - signalled:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
            signalled.add(pid)
        time.sleep(0.02)


def inside(name: str, action: Callable[[], T]) -> T:
    """Call `action` in a thread that is in the namespace; sockets made there stay there.

    Returns what it returns and raises what it raises.
    """
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            _enter(name)
            results.append(action())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name=f"in {name}")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def ip(*arguments: str, batch: Sequence[str] = ()) -> str:
    """Run `ip ARGUMENTS`, or with `batch` its lines. Returns its output; raises TestbedFailed."""
    argv = ["ip", *arguments, *(["-batch", "-"] if batch else [])]
    return run_tool(argv, "\n".join(batch))


def run_tool(argv: Sequence[str], text: str = "") -> str:
    """Run a tool of iproute2 to its end with `text` as input. Raises TestbedFailed."""
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise UnsupportedError(
            f"cannot run {argv[0]}", why="it is not installed", fix="install iproute2"
        ) from error
    if done.returncode != 0:
        command = " ".join(argv) + (f" <<< {text!r}" if text else "")
        raise TestbedFailed(f"`{command}` failed", why=done.stderr.strip())
    return done.stdout


def _enter(name: str) -> None:
    """Move the calling thread, for good."""
    descriptor = os.open(FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)
    finally:
        os.close(descriptor)


def _is_orphan(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and _start_time(int(match[1])) != int(match[2])


def _start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot; None: there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.rpartition(")")[2].split()[19])
