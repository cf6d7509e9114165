# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions: one that mounts a folder, and one whose kernel is a guest's.

A mount is made, and undone, by Debian's fusermount3, so no root is needed. It waits on a socket
for as long as the session's process lives: when that is killed, the mount is gone as well. Debian
12's (3.14) looks first, as root, whether nobody serves it. Where somebody else mounted, root may
not look, and the mount stays: dead, until `unmount_dead` or `fusermount3 -u`.

Invalidation and waiting. The kernel locks a page while a request about it is under way, and a
notification waits for that lock. So who calls `invalidate` or `invalidate_entry`

- is no thread that answers a request of the same session
- holds nothing that an answer waits for, and is nobody whose return an answer waits for, as far as
  cached files are concerned: an open with Handle.direct has no pages, and nothing waits for it

Take a right away from the window first, then invalidate: what is read in between is asked.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import socket as sockets
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from satchel.errors import SatchelError, UnsupportedError
from shares.fuse._native._fuse import NativeSession, Window
from shares.node.operations import Operations

NOTIFIED = 0x4E4F5446
"""Opcode of a relay's message that its kernel has taken a notification. The message is a
fuse_in_header alone, with `unique` the number of notifications, this one included, that the relay
has written to its /dev/fuse. It must write them on a thread of its own: the kernel may take one
only after a reply that comes later."""

UNMOUNT_SECONDS = 10.0
"""How long fusermount3 may take to unmount what nobody serves any more."""


class FusermountMissing(UnsupportedError):
    """fusermount3 is not installed."""


class MountFailed(SatchelError):
    """fusermount3 did not mount. It left nothing."""


@dataclass(frozen=True)
class SessionOptions:
    """name: the mount's, in /proc/mounts
    threads: so many requests may be under way at once, programs that wait for a lock not counted
    allow_other: users other than the one who mounts may use it (as mount.fuse3(8) has it)
    """

    name: str = "satchel"
    threads: int = 64
    allow_other: bool = False
    read_only: bool = False


class _SessionBase:
    """What both kinds of session have. Thread-safe."""

    def __init__(self, native: NativeSession) -> None:
        self._native: NativeSession | None = native
        self._mutex = threading.Lock()
        self._running = False
        self._ended = threading.Event()

    def run(self) -> None:
        """Serves until `stop`, an unmount from outside or the end of the stream; once only.

        Ctrl-C, in the main thread, is raised when the session has ended. Returns when no call of
        `operations` is under way.
        """
        with self._mutex:
            native = self._taken()
            if self._running:
                raise RuntimeError("a session runs once")
            self._running = True
        try:
            native.run()
        finally:
            del native
            self._end()

    def stop(self) -> None:
        """Has `run` return; does not wait for it. From any thread, an answering one included."""
        with self._mutex:
            if self._native is not None:
                self._native.stop()

    def close(self) -> None:
        """Stops, and waits until nothing is left; not from a thread that answers."""
        self.stop()
        with self._mutex:
            running = self._running
        if running:
            self._ended.wait()
        else:
            self._end()

    def invalidate(self, file: int, offset: int = 0, length: int = 0) -> None:
        """The kernel forgets the attributes of a file and its cached bytes in a range; length 0 is
        to the end, offset -1 the attributes alone. Returns when that is done.

        OSError: the session has ended or does not run yet, or a guest's kernel does not take it
        for 30 seconds. What the kernel does not know is no error. See above for what must not wait
        for this.
        """
        self._taken().invalidate(file, offset, length)

    def invalidate_entry(self, parent: int, name: bytes) -> None:
        """The kernel forgets that a folder has a name; as `invalidate`."""
        self._taken().invalidate_entry(parent, name)

    def attach(self, handle: int, window: Window) -> None:
        """A handle that was opened through another session is answered through a window here,
        until it is released. Once for each of them."""
        self._taken().attach(handle, window)

    def _taken(self) -> NativeSession:
        native = self._native
        if native is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return native

    def _end(self) -> None:
        """Closes what the session was served on."""
        with self._mutex:
            self._native = None
        self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MountSession(_SessionBase):
    """A mounted tree. When it is stopped with files open, they give ENOTCONN from then on."""

    def __init__(
        self,
        operations: Operations,
        mountpoint: Path,
        options: SessionOptions = SessionOptions(),
    ) -> None:
        """Mounts; requests wait until `run`. MountFailed, FusermountMissing."""
        self._mount = _Mount(mountpoint, options)
        try:
            with self._mount.device as device:
                native = NativeSession.mounted(operations, device.fileno(), options.threads)
        except BaseException:
            self._mount.close()
            raise
        super().__init__(native)

    def _end(self) -> None:
        with self._mutex:
            self._native = None  # closes /dev/fuse, so that nobody waits for an answer any more
        self._mount.close()
        super()._end()


class RelayedSession(_SessionBase):
    """A session for a kernel elsewhere: raw FUSE messages over `fd`, a socket or a pair of pipes'
    end, which is duplicated and made non-blocking. What does not hold together is refused before
    libfuse sees it; a length that cannot be ends the session.

    The kernel sends INIT once in its life. `init` is what an earlier session had of it; it is not
    answered again.
    """

    def __init__(
        self,
        operations: Operations,
        fd: int,
        init: bytes | None = None,
        *,
        notified: bool = False,
        threads: int = 64,
    ) -> None:
        """notified: the relay tells what notifications its kernel has taken (NOTIFIED). One that
        does not gets none: `invalidate` is ENOTSUP, and the tree lets the kernel keep nothing that
        another node may change. ValueError: `init` is none."""
        super().__init__(NativeSession.relayed(operations, fd, init or b"", notified, threads))

    @property
    def init(self) -> bytes:
        """The kernel's INIT message; empty before it came."""
        return self._taken().init

    @property
    def refused(self) -> int:
        """Messages that did not hold together."""
        return self._taken().refused

    def drain(self, seconds: float) -> bool:
        """Takes no further message, and waits until all that were taken are answered. False when
        that takes longer, as when a guest has sent a part of one; `resume` goes on either way."""
        return self._taken().drain(seconds)

    def resume(self) -> None:
        self._taken().resume()


class _Mount:
    """A mounted /dev/fuse, `device`, which the taker closes, and the fusermount3 that
    unmounts when `close` is called or this process ends."""

    def __init__(self, mountpoint: Path, options: SessionOptions) -> None:
        self.mountpoint = mountpoint.absolute()
        program = shutil.which("fusermount3")
        if program is None:
            raise FusermountMissing(
                f"cannot mount {mountpoint}",
                why="fusermount3 is missing",
                fix="install Debian's package fuse3",
            )
        self._program = program
        self._socket, theirs = sockets.socketpair()
        with tempfile.TemporaryFile() as said:
            with theirs:
                self._process = subprocess.Popen(
                    [program, "-o", _mount_options(options), "--", str(self.mountpoint)],
                    env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                )
            self.device = self._receive(said)

    def _receive(self, said: BinaryIO) -> io.FileIO:
        with contextlib.suppress(OSError):
            descriptors = sockets.recv_fds(self._socket, 1, 1)[1]
            if descriptors:
                os.set_inheritable(descriptors[0], False)
                return io.FileIO(descriptors[0], "r+")
        self._socket.close()
        self._process.wait()
        said.seek(0)
        why = said.read().decode(errors="replace").strip() or "fusermount3 failed"
        raise MountFailed(f"cannot mount {self.mountpoint}", why=why)

    def close(self) -> None:
        """Returns when the mount is gone. The device has been closed before."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(UNMOUNT_SECONDS)
        if self._process.poll() is None or _is_dead(self.mountpoint):
            _unmount(self._program, self.mountpoint)
        self._process.kill()
        self._process.wait()


def unmount_dead(mountpoint: Path) -> None:
    """A mount there that nobody serves any more is gone on return, if this user may unmount it."""
    program = shutil.which("fusermount3")
    if program is not None and _is_dead(mountpoint):
        _unmount(program, mountpoint.absolute())


def _unmount(program: str, mountpoint: Path) -> None:
    argv = [program, "-u", "-z", "-q", "--", str(mountpoint)]
    subprocess.run(argv, check=False, capture_output=True)


def _is_dead(mountpoint: Path) -> bool:
    """Whether it is a mount that nobody serves."""
    try:
        mountpoint.lstat()
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def _mount_options(options: SessionOptions) -> str:
    name = options.name.replace("\\", "\\\\").replace(",", "\\,")
    chosen = [
        "ro" if options.read_only else "rw",
        "nosuid",
        "nodev",
        "default_permissions",
        "auto_unmount",
        f"fsname={name}",
        "subtype=satchel",
    ]
    if options.allow_other:
        chosen.append("allow_other")
    return ",".join(chosen)
