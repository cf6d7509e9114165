# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sockets that listen, of this host alone: at a path or at a port of 127.0.0.1.

Of a path, whoever answers there keeps it; a socket that nobody listens at any more is removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from satchel.errors import AccessError, ConflictError
from satchel.paths import SOCKET_PATH_LIMIT
from wire.errors import LocalProtocolError

_PEER = struct.Struct("3i")
"""Process, user, group."""


def listen_unix(path: Path) -> socket.socket:
    """A socket of mode 0600 that listens at `path`. Raises ConflictError where somebody answers or
    another kind of file lies, AccessError where the folder does not let us, LocalProtocolError
    where the path is too long for a socket."""
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
        raise LocalProtocolError(
            f"cannot listen at {path}", why=f"longer than {SOCKET_PATH_LIMIT} bytes"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _folder_lock(path.parent):
            remove_stale_socket(path)
            os.fchmod(listener.fileno(), 0o600)  # on Linux: the mode that bind gives the file
            listener.bind(str(path))
            listener.listen(1024)
        return listener
    except OSError as error:
        listener.close()
        raise AccessError(f"cannot listen at {path}", why=error.strerror or "") from error
    except BaseException:
        listener.close()
        raise


def peer_process(connection: socket.socket) -> int:
    """Return the number of the process that connected to a Unix socket of this host."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(found)[0])


def listen_local(port: int) -> socket.socket:
    """A socket that listens at 127.0.0.1:`port`, or at a free port for 0. Raises ConflictError
    where the port is taken, AccessError where it may not be used."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(1024)
        return listener
    except (OSError, OverflowError) as error:
        listener.close()
        what, why = f"cannot listen at 127.0.0.1:{port}", str(error)
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ConflictError(what, why="the port is taken", fix="choose another one") from error
        raise AccessError(what, why=why, fix="choose a port from 1024 to 65535") from error


def remove_stale_socket(path: Path) -> None:
    """Remove the socket at `path` if nobody answers at it; nothing there is fine.

    Raises ConflictError if somebody answers or if it is another kind of file.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConflictError(f"cannot listen at {path}", why="a file that is not a socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except TimeoutError:
            pass  # its backlog is full: somebody is there
    raise ConflictError(
        f"cannot listen at {path}",
        why="another program answers there",
        fix="stop the other program",
    )


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """One at a time looks whether a socket is stale, removes it and binds anew."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
