# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive the one that started them: machines, what serves their volumes, the mounts
of their RAM."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

_TAIL_BYTES = 4096


class Child:
    """A process that is our child, and not started by `subprocess`. Thread-safe.

    returncode: as subprocess.Popen's; None until `wait` has returned.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._waiting = threading.Lock()

    def wait(self) -> int:
        """Until it has ended; its exit status, or the negative number of a signal."""
        with self._waiting:
            if self.returncode is None:
                _, status = os.waitpid(self.pid, 0)
                self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def kill(self) -> None:
        """End it, if it has not been waited for."""
        with self._waiting:
            if self.returncode is None:
                os.kill(self.pid, signal.SIGKILL)


class PreparedProgram:
    """A program that is started and waits for its turn: by then all is over that a start takes. One
    owner, who calls `run` or `close`. It ends with its owner."""

    WAITING = ("/bin/sh", "-c", 'read -r go && exec "$@"', "prepared")
    """What stands before the command: it becomes the command at a line on its standard input."""

    def __init__(
        self,
        command: Sequence[str],
        begin: Callable[[Sequence[str], int, int], subprocess.Popen[bytes] | Child],
    ) -> None:
        """begin: starts what it is given, with these two as standard input and output. Raises what
        that raises."""
        self._command = command
        go, self._go = os.pipe()
        self._output, output = os.pipe()
        try:
            self._child = begin([*self.WAITING, *command], go, output)
        except BaseException:
            os.close(self._go)
            os.close(self._output)
            raise
        finally:
            os.close(go)
            os.close(output)

    def run(self) -> subprocess.CompletedProcess[str]:
        """Let it go on, and wait for its end; with what it said, errors too. Once."""
        with contextlib.suppress(BrokenPipeError):  # its status will tell
            os.write(self._go, b"\n")
        return self._ended()

    def close(self) -> None:
        """End it, if it has not had its turn. Harmless the second time."""
        if self._go >= 0:
            self._ended()

    def _ended(self) -> subprocess.CompletedProcess[str]:
        os.close(self._go)
        self._go = -1
        with os.fdopen(self._output, "rb") as file:
            said = file.read().decode(errors="replace")
        return subprocess.CompletedProcess(self._command, self._child.wait(), said, said)


class Process:
    """A process that we started, or that an earlier process of ours did. Thread-safe.

    Held by a descriptor, so that its number cannot come to mean another one.
    command: its arguments. output: the file of its stdout and stderr.
    """

    def __init__(
        self,
        pid: int,
        command: Sequence[str],
        output: Path,
        child: subprocess.Popen[bytes] | Child | None = None,
    ) -> None:
        """Raises ProcessLookupError where there is no process of that number."""
        self._handle = os.pidfd_open(pid)
        self.pid = pid
        self.command = list(command)
        self._output = output
        self._child = child

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        output: Path,
        *,
        launcher: Sequence[str] = (),
        inherited: Sequence[int] = (),
    ) -> Process:
        """Run `command` in a session of its own, with / as its folder; `output` is appended to.

        launcher: arguments before the command's, of a program that becomes the command.
        inherited: descriptors that it keeps. Raises OSError.
        """
        with output.open("ab") as file:
            child = subprocess.Popen(
                [*launcher, *command],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=inherited,
                start_new_session=True,
            )
        try:
            return cls(child.pid, command, output, child)
        except OSError:
            child.kill()
            child.wait()
            raise

    @classmethod
    def find(cls, pid: int, output: Path) -> Process | None:
        """The process of that number, if there is one."""
        try:
            process = cls(pid, (), output)
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, OverflowError):
            return None
        process.command = os.fsdecode(command).split("\0")[:-1]
        return None if process.ended() else process

    @classmethod
    def named(cls, pid_file: Path) -> Process | None:
        """The process whose number is in a file, `output` beside it as NAME.log. The file may be
        old or hold anything: the arguments tell whose process it is."""
        try:
            pid = int(pid_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return cls.find(pid, pid_file.with_suffix(".log"))

    def ended(self, seconds: float | None = 0.0) -> bool:
        """Whether it has ended, waiting for that up to `seconds`; None: however long it takes."""
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        if not poll.poll(None if seconds is None else seconds * 1000):
            return False
        if self._child is not None:
            self._child.wait()
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send it that signal, if it has not ended; never to another process of the same number."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def end(self, patience: float, killed: float | None = None) -> bool:
        """Ask it to end, kill it after `patience` seconds, wait as `ended` does. Whether it is
        gone."""
        self.signal(signal.SIGTERM)
        if self.ended(patience):
            return True
        self.signal(signal.SIGKILL)
        return self.ended(killed)

    def ending(self) -> str:
        """How it ended, once it has."""
        if self._child is None:
            return "ended, nobody knows how: it was not our child"
        code = self._child.wait()
        if code >= 0:
            return f"ended with exit status {code}"
        return f"was ended by {signal.Signals(-code).name}"

    def report(self) -> str:
        """Its command line and the tail of its output, several lines."""
        return f"command: {shlex.join(self.command)}\noutput: {self.tail() or '(none)'}"

    def tail(self) -> str:
        """The last lines that it wrote."""
        return printable_tail(self._output)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._handle)


def printable_tail(path: Path) -> str:
    """The end of a text file, fit for a terminal: a guest may have a say in it. Empty if none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join("".join(filter(str.isprintable, line)) for line in lines).strip()
