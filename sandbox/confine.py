# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Confines the process that calls it, for good: it goes on with a stranger's bytes.

Where a cell takes a program that others have written, this is for our own code, which has its
imports behind it and needs no namespaces: `media/apart.py` reads media with it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from sandbox.enter import Landlock, Seccomp, keep_capabilities, landlock_version
from satchel.errors import UnsupportedError

MEMORY_LIMIT = 2 << 30
"""Bytes of address space."""

FILE_LIMIT = 64 << 20
"""Bytes of the largest file that is written."""

_NO_NEW_PRIVILEGES = 38
_THREAD = 0x10000
"""Of clone(2)."""

_FIONBIO = 0x5421

_DAC_OVERRIDE = 1 << 1
"""Without it root could not read a stick that another user has written. Landlock bounds it."""

_ALLOWED = (
    *("read", "pread64", "readv", "preadv", "write", "pwrite64", "writev", "pwritev", "lseek"),
    *("open", "openat", "close", "fstat", "stat", "lstat", "newfstatat", "statx", "access"),
    *("faccessat", "faccessat2", "readlink", "readlinkat", "getdents64", "statfs", "fstatfs"),
    *("mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2"),
    *("ftruncate", "fallocate", "fadvise64", "fsync", "fdatasync", "sync_file_range", "syncfs"),
    *("fcntl", "flock", "dup", "dup2", "dup3", "getcwd", "io_setup", "io_submit", "io_destroy"),
    *("io_getevents", "mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "msync"),
    *("futex", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "sched_yield"),
    *("sched_getaffinity", "membarrier", "gettid", "getpid", "getuid", "geteuid", "getgid"),
    *("getegid", "uname", "sysinfo", "getrandom", "getrusage", "times", "time", "gettimeofday"),
    *("clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "poll", "ppoll", "select"),
    *("pselect6", "recvfrom", "recvmsg", "shutdown", "getsockopt", "setsockopt", "getsockname"),
    *("getpeername", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack"),
    *("restart_syscall", "arch_prctl", "exit", "exit_group"),
)
"""Calls of a process that reads, writes and answers, with threads."""


class ConfinementImpossible(UnsupportedError):
    """This kernel cannot confine a process."""


def require_confinement() -> None:
    """Raise ConfinementImpossible if this kernel cannot confine a process."""
    if landlock_version() == 0:
        raise ConfinementImpossible(
            "this kernel cannot confine what reads a stranger's bytes",
            why="it has no Landlock",
            fix="start it with lsm=landlock,... or use a newer one",
        )
    try:
        Seccomp()
    except OSError as error:
        raise ConfinementImpossible(
            "cannot confine what reads a stranger's bytes", why=str(error)
        ) from error


def confine(readable: Sequence[Path], writable: Sequence[Path] = ()) -> None:
    """From now on this process reads only what is below `readable` and Python's own modules,
    changes only what is below `writable`, starts no program, connects to nothing and signals
    nobody. It may make threads.

    Call it before there is a second thread: one that is there already stays as it is. Raises
    ConfinementImpossible, and nothing is changed then; OSError.
    """
    require_confinement()
    modules = [path for path in (*sys.path, sys.base_prefix, "/usr/lib", "/lib") if path]
    landlock = Landlock(
        [str(path) for path in writable], [], [str(path) for path in (*readable, *modules)]
    )
    seccomp = Seccomp(Seccomp.DENY | errno.EPERM)
    for call in _ALLOWED:
        seccomp.allow(call)
    seccomp.allow("clone", (0, Seccomp.MASKED_EQUAL, _THREAD, _THREAD))
    seccomp.allow("sendto", (4, Seccomp.EQUAL, 0, 0))  # without an address
    seccomp.allow("ioctl", (1, Seccomp.EQUAL, _FIONBIO, 0))  # a socket's timeout
    for call in ("clone3", "openat2"):  # their flags are in memory; the C library takes others then
        seccomp.deny(call, errno.ENOSYS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
    if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    keep_capabilities(_DAC_OVERRIDE)
    os.environ.clear()
    landlock.load()
    seccomp.load()
