# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where a program's files live: the XDG base directories, one folder `satchel` in each."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

from satchel.errors import AccessError

SOCKET_PATH_LIMIT = 107
"""Bytes that a Unix socket's path may have on Linux."""

MACHINE_CONFIG = Path("/etc/satchel")

SHARE_SOCKET = "shares.sock"
"""Home's socket for nodes of shares, in the folder of the socket of its API."""


def call_socket(service: str) -> str:
    """Home's socket for what guests of a service ask of their shares, in the folder of the socket
    of its API. Its length does not depend on the name's."""
    return f"calls-{hashlib.sha256(service.encode()).hexdigest()[:16]}.sock"


def edge_sockets(service: str, surrogate: str) -> tuple[str, str]:
    """Home's sockets for what a surrogate was granted for a service, in the same folder: for its
    node of the share, and for the calls of the guest."""
    word = hashlib.sha256(f"{service} {surrogate}".encode()).hexdigest()[:16]
    return f"edge-{word}.sock", f"edge-calls-{word}.sock"


def config_dir() -> Path:
    """`$XDG_CONFIG_HOME/satchel`, by default `~/.config/satchel`."""
    return _base("XDG_CONFIG_HOME", ".config")


def config_file(name: str) -> Path:
    """A settings file: the user's own, else the one of this machine in `/etc/satchel`, which the
    daemons have that systemd starts. The user's where there is neither."""
    own, shared = config_dir() / name, MACHINE_CONFIG / name
    return shared if shared.exists() and not own.exists() else own


def data_dir() -> Path:
    """`$XDG_DATA_HOME/satchel`, by default `~/.local/share/satchel`."""
    return _base("XDG_DATA_HOME", ".local/share")


def state_dir() -> Path:
    """`$XDG_STATE_HOME/satchel`, by default `~/.local/state/satchel`."""
    return _base("XDG_STATE_HOME", ".local/state")


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/satchel`, by default `~/.cache/satchel`."""
    return _base("XDG_CACHE_HOME", ".cache")


def runtime_dir() -> Path:
    """`$XDG_RUNTIME_DIR/satchel`, by default a private folder in the temporary directory.

    Sockets live here, so the path is short. The caller creates it, with mode 0700; the one in the
    temporary directory, where others may be faster, is created here. Raises AccessError where that
    is another user's, or others may write to it.
    """
    root = os.environ.get("XDG_RUNTIME_DIR")
    if root:
        return Path(root) / "satchel"
    return _private(Path(tempfile.gettempdir()) / f"satchel-{os.getuid()}")


def _private(folder: Path) -> Path:
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError:
        return folder  # it cannot be made: whoever needs it says so
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not ours or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise AccessError(
            f"cannot use {folder}",
            why="others could put their sockets in the place of ours there",
            fix="remove it, or set XDG_RUNTIME_DIR to a folder of your own",
        )
    return folder


def _base(variable: str, fallback: str) -> Path:
    root = os.environ.get(variable)
    return (Path(root) if root else Path.home() / fallback) / "satchel"
