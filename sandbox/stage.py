# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Becomes bubblewrap as another user: `python -I -S stage.py UID GROUPS COUNT PATH... -- BWRAP ...`

Standard library only, run by path in a process of its own, by root. That user cannot walk to the
folders of a replica, which are root's alone. So each of the COUNT paths is bound to STAGE/0,
STAGE/1 ... first, in a mount namespace of this process, and bubblewrap binds those.

Bubblewrap stays in that namespace as long as the cell is. So nothing else is in it but the system's
programs: a copy of every mount of the host would keep a stick busy that was unmounted there.

Exit status 120: something here failed; the reason is on stderr.
"""

import ctypes
import os
import sys

STAGE = "/stage"
SETUP_FAILED = 120

_ROOT = "/tmp"
_SYSTEM = (
    "usr",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "dev",
    "proc",
    "etc/ld.so.cache",
)
_NEW_NAMESPACE = 0x20000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _mount(
    source: bytes | None, target: str, kind: bytes | None, flags: int, options: bytes | None = None
) -> None:
    result = _libc.mount(source, target.encode(), kind, ctypes.c_ulong(flags), options)
    _check(result, f"mount {target}")


def _bind(source: str, target: str, folder: bool) -> None:
    os.makedirs(target if folder else os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
    if not folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(os.fsencode(source), target, None, _BIND)


def stage(paths: list[str]) -> None:
    """Each path at its place in STAGE, below a root with the system's programs and no more."""
    _check(_libc.unshare(_NEW_NAMESPACE), "cannot make a mount namespace")
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    held = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths]
    folders = [os.path.isdir(path) for path in paths]  # noqa: PTH112
    _mount(b"tmpfs", _ROOT, b"tmpfs", 0, b"mode=755,size=64k,nr_inodes=1k")
    for name in _SYSTEM:
        if os.path.islink(f"/{name}"):  # noqa: PTH114
            os.symlink(os.readlink(f"/{name}"), f"{_ROOT}/{name}")  # noqa: PTH115, PTH211
        elif os.path.exists(f"/{name}"):  # noqa: PTH110
            _bind(f"/{name}", f"{_ROOT}/{name}", os.path.isdir(f"/{name}"))  # noqa: PTH112
    os.mkdir(f"{_ROOT}/tmp")  # noqa: PTH102, where bubblewrap builds the cell's root
    for number, (descriptor, folder) in enumerate(zip(held, folders, strict=True)):
        _bind(f"/proc/self/fd/{descriptor}", f"{_ROOT}{STAGE}/{number}", folder)
    os.chdir(_ROOT)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "cannot leave the host's mounts")
    os.chdir("/")


def main(argv: list[str]) -> int:
    """Returns only on failure."""
    os.umask(0o022)  # that user walks through what is made here
    uid, groups, count = int(argv[0]), [int(one) for one in argv[1].split(",") if one], int(argv[2])
    paths, command = argv[3 : 3 + count], argv[4 + count :]
    try:
        stage(paths)
        os.setgroups(groups)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"cannot make a cell: {error}", file=sys.stderr)
    return SETUP_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
