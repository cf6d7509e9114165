# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""From system calls to accesses: which file, at which offset, by whom.

Descriptors are followed as the kernel does it: a table for each process, or shared by threads; what
`dup` and `fork` make shares its offset; `exec` closes what is to be closed. A file stays the same
file when it is renamed, and is another one when its name is removed and made anew.

A program of the share counts as read when it is executed. A mapping counts as one read of its range
when it is made: what is touched through it later, and what is written through a shared one, strace
does not see. Calls that fail, or that transfer nothing, are left out, and so are files outside of
the shared folder.
"""

from __future__ import annotations

import copy
import os.path
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from papers.ofs.strace import Call, Descriptor, PendingCall, calls, unquoted
from papers.ofs.trace import ABSENT, MICROSECONDS, Access, File, Kind, Trace
from papers.ofs.uses.marks import MARK

DATA = {
    "read": (Kind.READ, None),
    "readv": (Kind.READ, None),
    "pread64": (Kind.READ, 3),
    "preadv": (Kind.READ, 3),
    "preadv2": (Kind.READ, 3),
    "write": (Kind.WRITE, None),
    "writev": (Kind.WRITE, None),
    "pwrite64": (Kind.WRITE, 3),
    "pwritev": (Kind.WRITE, 3),
    "pwritev2": (Kind.WRITE, 3),
}
"""Kind, and which argument is the offset; None: the descriptor's own."""

TRACED = (
    *DATA,
    *("open", "openat", "creat", "close", "close_range", "dup", "dup2", "dup3", "fcntl"),
    *("lseek", "truncate", "ftruncate", "mmap", "sendfile", "copy_file_range"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat"),
    *("chdir", "fchdir", "access", "faccessat", "faccessat2"),
    *("clone", "clone3", "fork", "vfork", "execve"),
)
"""What strace has to write down."""

_POINTED = re.compile(r"\[(-?\d+)\]")


@dataclass
class _Open:
    """An open file description. file: its number; None outside of the share."""

    path: str
    file: int | None
    offset: int = 0
    append: bool = False


@dataclass
class _Slot:
    open: _Open
    closes: bool


@dataclass
class _Thread:
    """table and cwd may be others' as well: they are shared objects."""

    table: dict[int, _Slot]
    cwd: list[str]
    role: str
    procedure: int = 0
    said: bool = False
    """Whether the role is what a program said: then it is that of programs that are executed,
    too."""

    task: int = -1


@dataclass
class Follower:
    """root: the shared folder, absolute, no link in it. sizes: of the files in it at the beginning,
    by absolute path. cwd: of the first process."""

    root: str
    sizes: Mapping[str, int]
    cwd: str
    files: list[File] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    procedures: list[str] = field(default_factory=lambda: [""])
    _names: dict[str, int] = field(default_factory=dict)
    _now: list[int] = field(default_factory=list)
    _threads: dict[int, _Thread] = field(default_factory=dict)
    _parents: dict[int, list[Call]] = field(default_factory=dict)
    _began: float | None = None

    def __post_init__(self) -> None:
        for path, size in sorted(self.sizes.items()):
            self._file(path, size)

    def follow(self, lines: Iterable[str], use: str) -> Trace:
        """All of a recording. Raises ValueError for what strace does not write."""
        everything = list(calls(lines))
        for call in everything:
            if isinstance(call, Call) and call.name in _FORKS and call.result:
                self._parents.setdefault(call.result, []).append(call)
        for call in everything:
            self._take(call)
        return self._trace(use)

    def _trace(self, use: str) -> Trace:
        """Only with the files that were touched, numbered in that order."""
        accesses = sorted(self.accesses, key=lambda each: each.at)
        order = {number: at for at, number in enumerate(dict.fromkeys(a.file for a in accesses))}
        return Trace(
            use,
            tuple(self.roles),
            tuple(self.procedures),
            tuple(self.files[number] for number in order),
            tuple(replace(each, file=order[each.file]) for each in accesses),
        )

    def _take(self, call: Call | PendingCall) -> None:
        if self._began is None:
            self._began = call.at
        thread = self._threads.get(call.task) or self._appeared(call.task)
        if isinstance(call, PendingCall):
            return
        if call.ended:
            self._threads.pop(call.task)
        elif call.result is not None and call.result < 0:
            if call.name in _QUESTIONS:
                self._marked(thread, call)
        elif call.result is not None:
            if call.name in DATA:
                self._transfer(thread, call)
            elif call.name in _ACTIONS:
                _ACTIONS[call.name](self, thread, call)

    def _appeared(self, task: int) -> _Thread:
        """A thread's first line, or the return of the call that made it, whichever is first."""
        made = self._parents.get(task, [])
        if not made or made[0].task not in self._threads:
            thread = _Thread({}, [self.cwd], "")
        else:
            call = made.pop(0)
            parent, text = self._threads[call.task], " ".join(call.arguments)
            thread = copy.copy(parent)
            thread.task = -1
            if "CLONE_FILES" not in text:
                thread.table = {n: copy.copy(slot) for n, slot in parent.table.items()}
            if "CLONE_FS" not in text:
                thread.cwd = parent.cwd.copy()
        self._threads[task] = thread
        return thread

    def _forked(self, thread: _Thread, call: Call) -> None:
        assert call.result is not None
        made = self._parents.get(call.result, [])
        if any(each is call for each in made):
            self._appeared(call.result)

    def _executed(self, thread: _Thread, call: Call) -> None:
        thread.table = {n: slot for n, slot in thread.table.items() if not slot.closes}
        if not thread.said:
            thread.role, thread.task = unquoted(call.arguments[0]).rpartition("/")[2], -1
        program = self._names.get(self._path(thread, call.arguments[0]))
        if program is not None:
            self._access(thread, call, Kind.READ, program, 0, self._now[program])

    def _marked(self, thread: _Thread, call: Call) -> None:
        path = unquoted(call.arguments[0 if call.name in {"access", "open"} else 1])
        what, _, name = path.removeprefix(MARK).partition("/")
        if not path.startswith(MARK):
            return
        if what == "role":
            thread.role, thread.task, thread.said = name, -1, True
        elif what == "procedure":
            if name not in self.procedures:
                self.procedures.append(name)
            thread.procedure = self.procedures.index(name)

    def _file(self, path: str, size: int) -> int:
        """A file that there is now by this name."""
        self.files.append(File(os.path.relpath(path, self.root), size))
        self._now.append(max(size, 0))
        self._names[path] = len(self.files) - 1
        return self._names[path]

    def _inside(self, path: str) -> bool:
        return path.startswith(self.root + "/")

    def _path(self, thread: _Thread, text: str, base: str | None = None) -> str:
        below = thread.cwd[0] if base is None else Descriptor.of(base).path
        path = unquoted(text)
        whole = path if path.startswith("/") else f"{below or thread.cwd[0]}/{path}"
        return os.path.normpath(whole)

    def _opened(self, thread: _Thread, call: Call) -> None:
        assert call.result is not None
        text = call.arguments[{"open": 1, "openat": 2}.get(call.name, 0)]
        flags = "O_CREAT|O_TRUNC" if call.name == "creat" else text
        path = call.shown
        file = self._names.get(path)
        if file is None and self._inside(path) and "O_CREAT" in flags:
            file = self._file(path, ABSENT)
        opened = _Open(path, file, append="O_APPEND" in flags)
        thread.table[call.result] = _Slot(opened, "O_CLOEXEC" in flags)
        if file is not None and "O_TRUNC" in flags and self._now[file]:
            self._resize(thread, call, file, 0)

    def _closed(self, thread: _Thread, call: Call) -> None:
        thread.table.pop(_number(call, 0), None)

    def _closed_range(self, thread: _Thread, call: Call) -> None:
        first, last = (int(each, 0) for each in call.arguments[:2])
        for number in [n for n in thread.table if first <= n <= last]:
            if "CLOSE_RANGE_CLOEXEC" in call.arguments[2]:
                thread.table[number].closes = True
            else:
                thread.table.pop(number)

    def _duplicated(self, thread: _Thread, call: Call) -> None:
        assert call.result is not None
        if call.name == "fcntl":
            what = call.arguments[1]
            if what == "F_SETFD" and _number(call, 0) in thread.table:
                thread.table[_number(call, 0)].closes = "FD_CLOEXEC" in call.arguments[2]
            if not what.startswith("F_DUPFD"):
                return
        closes = "CLOEXEC" in " ".join(call.arguments[1:])
        thread.table[call.result] = _Slot(self._of(thread, call.arguments[0]), closes)

    def _of(self, thread: _Thread, argument: str) -> _Open:
        """The description behind a descriptor; one that was open before the recording is at its
        beginning."""
        shown = Descriptor.of(argument)
        assert shown.number is not None
        slot = thread.table.get(shown.number)
        if slot is None:
            slot = _Slot(_Open(shown.path, self._names.get(shown.path)), False)
            thread.table[shown.number] = slot
        return slot.open

    def _sought(self, thread: _Thread, call: Call) -> None:
        assert call.result is not None
        self._of(thread, call.arguments[0]).offset = call.result

    def _transfer(self, thread: _Thread, call: Call) -> None:
        assert call.result is not None
        kind, position = DATA[call.name]
        given = None if position is None else int(call.arguments[position], 0)
        self._moved(thread, call, kind, call.arguments[0], None if given == -1 else given)

    def _moved(
        self, thread: _Thread, call: Call, kind: Kind, descriptor: str, given: int | None
    ) -> None:
        """So many bytes as were returned, at `given` or where the description is."""
        assert call.result is not None
        opened = self._of(thread, descriptor)
        at = opened.offset if given is None else given
        if opened.file is not None and kind is Kind.WRITE and opened.append:
            at = self._now[opened.file]
        if given is None:
            opened.offset = at + call.result
        if opened.file is not None and call.result:
            self._access(thread, call, kind, opened.file, at, call.result)

    def _copied(self, thread: _Thread, call: Call) -> None:
        """From one descriptor to another, each with an offset of its own or a pointer to one."""
        arguments = call.arguments
        if call.name == "sendfile":
            ends = [(Kind.READ, 1, arguments[2]), (Kind.WRITE, 0, "NULL")]
        else:
            ends = [(Kind.READ, 0, arguments[1]), (Kind.WRITE, 2, arguments[3])]
        for kind, number, pointer in ends:
            found = _POINTED.match(pointer)
            self._moved(thread, call, kind, arguments[number], int(found[1]) if found else None)

    def _mapped(self, thread: _Thread, call: Call) -> None:
        if call.arguments[4] == "-1":
            return
        file = self._of(thread, call.arguments[4]).file
        if file is not None:
            at = int(call.arguments[5], 0)
            length = min(int(call.arguments[1], 0), self._now[file] - at)
            if length > 0:
                self._access(thread, call, Kind.READ, file, at, length)

    def _resized(self, thread: _Thread, call: Call) -> None:
        if call.name == "truncate":
            file = self._names.get(self._path(thread, call.arguments[0]))
        else:
            file = self._of(thread, call.arguments[0]).file
        if file is not None:
            self._resize(thread, call, file, int(call.arguments[1], 0))

    def _resize(self, thread: _Thread, call: Call, file: int, size: int) -> None:
        self._access(thread, call, Kind.RESIZE, file, size, 0)
        self._now[file] = size

    def _renamed(self, thread: _Thread, call: Call) -> None:
        old, new = self._both(thread, call)
        for name in [n for n in self._names if n == old or n.startswith(old + "/")]:
            self._names[new + name[len(old) :]] = self._names.pop(name)

    def _linked(self, thread: _Thread, call: Call) -> None:
        old, new = self._both(thread, call)
        if old in self._names:
            self._names[new] = self._names[old]

    def _both(self, thread: _Thread, call: Call) -> tuple[str, str]:
        first = call.arguments
        if call.name in {"rename", "link"}:
            return self._path(thread, first[0]), self._path(thread, first[1])
        return self._path(thread, first[1], first[0]), self._path(thread, first[3], first[2])

    def _unlinked(self, thread: _Thread, call: Call) -> None:
        if call.name == "unlink":
            path = self._path(thread, call.arguments[0])
        else:
            path = self._path(thread, call.arguments[1], call.arguments[0])
        self._names.pop(path, None)

    def _moved_to(self, thread: _Thread, call: Call) -> None:
        if call.name == "chdir":
            thread.cwd[0] = self._path(thread, call.arguments[0])
        else:
            thread.cwd[0] = Descriptor.of(call.arguments[0]).path

    def _access(
        self, thread: _Thread, call: Call, kind: Kind, file: int, at: int, length: int
    ) -> None:
        assert self._began is not None
        if thread.task < 0:
            self.roles.append(thread.role)
            thread.task = len(self.roles) - 1
        if kind is Kind.WRITE:
            self._now[file] = max(self._now[file], at + length)
        began = round((call.at - self._began) * MICROSECONDS)
        took = round(call.took * MICROSECONDS)
        self.accesses.append(
            Access(began, took, thread.task, thread.procedure, kind, file, at, length)
        )


def _number(call: Call, argument: int) -> int:
    return Descriptor.of(call.arguments[argument]).number or 0


_FORKS = ("clone", "clone3", "fork", "vfork")
_QUESTIONS = ("open", "openat", "access", "faccessat", "faccessat2")
"""Calls that ask for a file: where it is a mark, they fail."""

_Action = Callable[[Follower, _Thread, Call], None]
_BY_ACTION: dict[_Action, tuple[str, ...]] = {
    Follower._opened: ("open", "openat", "creat"),
    Follower._closed: ("close",),
    Follower._closed_range: ("close_range",),
    Follower._duplicated: ("dup", "dup2", "dup3", "fcntl"),
    Follower._sought: ("lseek",),
    Follower._copied: ("sendfile", "copy_file_range"),
    Follower._mapped: ("mmap",),
    Follower._resized: ("truncate", "ftruncate"),
    Follower._renamed: ("rename", "renameat", "renameat2"),
    Follower._linked: ("link", "linkat"),
    Follower._unlinked: ("unlink", "unlinkat"),
    Follower._moved_to: ("chdir", "fchdir"),
    Follower._forked: _FORKS,
    Follower._executed: ("execve",),
}
_ACTIONS = {name: action for action, names in _BY_ACTION.items() for name in names}

__all__ = ["TRACED", "Follower"]
