# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Becomes bubblewrap as another user: `python -I -S stage.py UID GROUPS COUNT PATH... -- BWRAP ...`

Standard library only, run by path in a process of its own, by root. That user cannot walk to the
folders of a replica, which are root's alone. So each of the COUNT paths is bound to STAGE/0,
STAGE/1 ... first, in a mount namespace of this process, and bubblewrap binds those.

Exit status 120: something here failed; the reason is on stderr.
"""

import ctypes
import os
import sys

STAGE = "/tmp"
SETUP_FAILED = 120

_NEW_NAMESPACE = 0x20000
_BIND, _RECURSIVE, _SLAVE, _PRIVATE = 0x1000, 0x4000, 0x80000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


def _mount(
    source: bytes | None, target: str, kind: bytes | None, flags: int, options: bytes | None = None
) -> None:
    if _libc.mount(source, target.encode(), kind, ctypes.c_ulong(flags), options) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount {target}: {os.strerror(code)}")


def stage(paths: list[str]) -> None:
    """Each path at its place in STAGE, in a new mount namespace."""
    if _libc.unshare(_NEW_NAMESPACE) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a mount namespace")
    _mount(None, "/", None, _RECURSIVE | _SLAVE)
    held = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths]
    folders = [os.path.isdir(path) for path in paths]  # noqa: PTH112
    _mount(b"tmpfs", STAGE, b"tmpfs", 0, b"mode=755,size=64k,nr_inodes=1k")
    for number, (descriptor, folder) in enumerate(zip(held, folders, strict=True)):
        place = f"{STAGE}/{number}"
        if folder:
            os.mkdir(place)  # noqa: PTH102
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        _mount(f"/proc/self/fd/{descriptor}".encode(), place, None, _BIND)


def main(argv: list[str]) -> int:
    """Returns only on failure."""
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
