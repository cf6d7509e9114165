# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The socket at which preloaded programs reach a node."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from satchel.errors import IntegrityError
from shares.node import Node
from shares.node.opened.handles import number
from shares.preload import messages
from shares.preload.answers import Answers
from shares.preload.stand_ins import StandIns
from shares.protocol import FileId

log = logging.getLogger(__name__)

LIBRARY = Path(__file__).with_name("_native") / "satchel-files.so"
LOOK_SECONDS = 0.5
"""Between looks at what programs have open."""

_PEER = struct.Struct("iII")


def environment(server: PreloadServer) -> dict[str, str]:
    """What a program's environment has to have, beside what it has."""
    before = os.environ.get("LD_PRELOAD", "")
    return {
        "LD_PRELOAD": f"{LIBRARY}:{before}" if before else str(LIBRARY),
        "SATCHEL_SHARE_ROOT": str(server.root),
        "SATCHEL_SHARE_SOCKET": str(server.socket),
        "SATCHEL_SHARE_FILES": str(server.stand_ins.folder),
    }


class PreloadServer:
    """Answers programs of this user. Thread-safe."""

    def __init__(self, node: Node, root: Path, folder: Path, *, through: bool = False) -> None:
        """Listen. root: an empty folder, where programs see the share; folder: of the socket and
        the stand-ins, made if it is missing; those of an earlier process are served on. through:
        home has each write before the program is answered. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.root, self.socket = root.resolve(), folder.resolve() / "socket"
        self._node = node
        self.stand_ins = StandIns(folder.resolve() / "files", self._unused)
        self._answers = Answers(node, os.fsencode(self.root), self.stand_ins, through=through)
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self.socket.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.socket))
        self._listener.listen(128)
        self._threads = [
            threading.Thread(target=target, name=f"preload {target.__name__}", daemon=True)
            for target in (self._accept, self._look)
        ]
        for thread in self._threads:
            thread.start()

    def close(self, *, keep: bool = False) -> None:
        """Answer nobody any more. The node is the caller's.

        keep: another server goes on in this one's folder. Programs that still run wait for it for
        30 seconds. Else they get EIO from now on."""
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        if not keep:
            self._put_away()

    def _put_away(self) -> None:
        self.socket.unlink(missing_ok=True)
        shutil.rmtree(self.stand_ins.folder, ignore_errors=True)
        for path, folders, _ in os.walk(self.root, topdown=False):
            for name in folders:  # they were made for the kernel, and have no files
                with suppress(OSError):
                    (Path(path) / name).rmdir()

    @property
    def used(self) -> bool:
        """Whether any program has a file of the share open."""
        return self.stand_ins.any_held()

    def _unused(self, file: FileId) -> None:
        with suppress(OSError):
            self._node.release(number(file, os.O_RDWR), 0)

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.stand_ins.look()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        """One program's requests, one after the other."""
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        pid, uid, _ = _PEER.unpack(peer)
        with self._lock:
            self._connections.add(connection)
        try:
            with connection, connection.makefile("rb") as stream:
                while uid in {os.geteuid(), 0} and not self._ended.is_set():
                    frame = _frame(stream.read(messages.SIZE.size), stream.read)
                    if frame is None:
                        break
                    connection.sendall(self._answers.answer(messages.unpack(frame)))
        except IntegrityError as error:
            log.warning("process %d: %s", pid, error)
        except OSError:
            pass  # it has ended
        finally:
            with self._lock:
                self._connections.discard(connection)
            self._left(pid)

    def _left(self, pid: int) -> None:
        if not Path(f"/proc/{pid}").exists():
            with suppress(OSError):
                self._answers.forget(pid)


def _frame(size: bytes, read: Callable[[int], bytes]) -> bytes | None:
    """What follows the size; None where the program has ended. Raises IntegrityError."""
    if len(size) < messages.SIZE.size:
        return None
    (wanted,) = messages.SIZE.unpack(size)
    if wanted > messages.MOST:
        raise IntegrityError("a program's request is none", why=f"it has {wanted} bytes")
    frame = read(wanted)
    return frame if len(frame) == wanted else None
