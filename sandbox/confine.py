# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Confines the process that calls it, for good: it goes on with a stranger's bytes.

Where a cell takes a program that others have written, this is for our own code, which has its
imports behind it and needs no namespaces: `media/apart.py` reads media with it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from sandbox.enter import Landlock, Seccomp
from satchel.errors import UnsupportedError

MEMORY_LIMIT = 2 << 30
"""Bytes of address space."""

FILE_LIMIT = 64 << 20
"""Bytes of the largest file that is written."""

_NO_NEW_PRIVILEGES = 38
_THREAD = 0x10000
"""Of clone(2)."""

_REACHING = (
    *("execve", "execveat", "connect", "sendmsg", "sendmmsg", "kill", "tkill"),
    *("pidfd_open", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo"),
    *("fork", "vfork", "shmget", "shmat", "msgget", "semget", "mq_open", "chmod", "chown"),
)
"""Calls by which a process that only reads and answers would reach others."""


class ConfinementImpossible(UnsupportedError):
    """This kernel cannot confine a process."""


def confine(readable: Sequence[Path], writable: Sequence[Path] = ()) -> None:
    """From now on this process reads only what is below `readable` and Python's own modules,
    changes only what is below `writable`, starts no program, connects to nothing and signals
    nobody. It may accept connections and make threads.

    Call it before there is a second thread: one that is there already stays as it is. Raises
    ConfinementImpossible, and nothing is changed then; OSError.
    """
    modules = [path for path in (*sys.path, sys.base_prefix, "/usr/lib", "/lib") if path]
    landlock = Landlock(
        [str(path) for path in writable], [], [str(path) for path in (*readable, *modules)]
    )
    if not landlock.in_force:
        raise ConfinementImpossible(
            "this kernel cannot confine what reads a stranger's bytes",
            why="it has no Landlock",
            fix="start it with lsm=landlock,... or use a newer one",
        )
    seccomp = Seccomp()
    seccomp.prepare(False, truncates=True)
    for call in _REACHING:
        seccomp.deny(call)
    seccomp.deny("clone", 1, (0, Seccomp.MASKED_EQUAL, _THREAD, 0))  # the C library's fork
    seccomp.deny("sendto", 1, (4, Seccomp.NOT_EQUAL, 0, 0))  # to an address
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
    if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    os.environ.clear()
    landlock.load()
    seccomp.load()
