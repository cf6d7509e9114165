# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Becomes QEMU, after giving up what QEMU does not need: `python -I -S launch.py -- QEMU ...`

Standard library only, run by path in a process of its own; it imports nothing of Satchel.

- madvise(MADV_HUGEPAGE) is answered with success and not done (a seccomp filter, beside which
  QEMU's own -sandbox filter works: the stricter answer of the two wins for every call). Guest RAM
  is a file that comes over the network; with that advice the kernel reads 1 MB where the guest
  touches 4 KB.
- No new privileges, and as root an empty capability bounding set.
- A file grows to FILE_LIMIT at most by write(): the guest decides how much it says on its console.
  Guest RAM is mapped and disks are sockets, so neither is concerned.
- No core dumps: a core has the guest's secrets in it.

Exit status 120: something here failed; the reason is on stderr. 127: no such program.
"""

import ctypes
import os
import platform
import resource
import signal
import struct
import sys

FILE_LIMIT = 16 << 20
SETUP_FAILED = 120
NOT_FOUND = 127

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_SECCOMP_MODE_FILTER = 2
_SECCOMP_RET_ALLOW = 0x7FFF0000
_SECCOMP_RET_ERRNO_0 = 0x00050000
_MADV_HUGEPAGE = 14

# seccomp_data: nr at 0, arch at 4, args[2] (the advice; its low half) at 32
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_MADVISE = {"x86_64": (0xC000003E, 28), "aarch64": (0xC00000B7, 233)}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def huge_page_filter(machine: str) -> bytes:
    """The classic BPF program for that `uname -m`. Raises KeyError for one not known."""
    arch, madvise = _MADVISE[machine]
    instructions = (
        (_LOAD, 0, 0, 4),
        (_JUMP_IF_EQUAL, 0, 5, arch),
        (_LOAD, 0, 0, 0),
        (_JUMP_IF_EQUAL, 0, 3, madvise),
        (_LOAD, 0, 0, 32),
        (_JUMP_IF_EQUAL, 0, 1, _MADV_HUGEPAGE),
        (_RETURN, 0, 0, _SECCOMP_RET_ERRNO_0),
        (_RETURN, 0, 0, _SECCOMP_RET_ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *one) for one in instructions)


def _prctl(option: int, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    values = [ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments]
    values += [ctypes.c_ulong(0)] * (4 - len(values))
    if libc.prctl(ctypes.c_int(option), *values) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def _drop_capabilities() -> None:
    if os.geteuid() != 0:
        return
    with open("/proc/sys/kernel/cap_last_cap") as file:  # noqa: PTH123
        last = int(file.read())
    for capability in range(last + 1):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except PermissionError:  # root in name only: it has nothing to drop
            return


def _confine() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _drop_capabilities()
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    code = huge_page_filter(platform.machine())
    program = _Program(len(code) // 8, code)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program))


def main(argv: list[str]) -> int:
    """Confine this process and turn it into argv[1:]; returns only on failure."""
    if len(argv) < 2 or argv[0] != "--":
        print("usage: launch.py -- PROGRAM ARGUMENT...", file=sys.stderr)
        return SETUP_FAILED
    try:
        _confine()
    except (OSError, KeyError, ValueError) as error:
        print(f"cannot confine {argv[1]}: {error!r}", file=sys.stderr)
        return SETUP_FAILED
    try:
        os.execvp(argv[1], argv[1:])
    except OSError as error:
        print(f"cannot run {argv[1]}: {error.strerror}", file=sys.stderr)
    return NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
