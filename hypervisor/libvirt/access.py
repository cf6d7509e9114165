# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a domain's user may get at."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

_ACCESS_LIST = "system.posix_acl_access"
_ENTRY = struct.Struct("<HHI")
_VERSION = struct.pack("<I", 2)
_NOBODY = 0xFFFFFFFF
_OWNER, _USER, _GROUP, _MASK, _OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
_ALL, _ENTER = 7, 1


def let_in(folder: Path, uid: int) -> None:
    """Give a folder to its owner, and let that user enter it and not look around; nobody else.

    An access list (acl(5)), because a group would have to be one that nobody else is in, and a
    domain under KVM is in the group of /dev/kvm. Raises OSError where the file system has none.
    """
    entries = (
        (_OWNER, _ALL, _NOBODY),
        (_USER, _ENTER, uid),
        (_GROUP, 0, _NOBODY),
        (_MASK, _ENTER, _NOBODY),
        (_OTHERS, 0, _NOBODY),
    )
    value = _VERSION + b"".join(_ENTRY.pack(*entry) for entry in entries)
    os.setxattr(folder, _ACCESS_LIST, value)


def group_of_kvm() -> int | None:
    """The group that a process must have to open /dev/kvm; None where it needs none."""
    try:
        found = Path("/dev/kvm").stat()
    except OSError:
        return None
    everybody = stat.S_IROTH | stat.S_IWOTH
    return None if found.st_mode & everybody == everybody else found.st_gid
