# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with a share and the keeper of one service."""

import contextlib
import os
import shutil
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from guestshares import CallKeeper, CallRecord, MemberHost
from guestshares.kernel import Opcode
from homeserver.guests.door import CallDoor
from homeserver.shares import Shares
from satchel.ids import ReplicaId
from shares.node import Buffer, Member, Node, open_file
from surrogate.guests import distant_keeper
from tests.guestshares.kernel import Kernel
from wire import Caller


class Home:
    """A share, and the keeper of a service that uses it, which may begin again."""

    def __init__(self, folder: Path, shares: Shares) -> None:
        self.folder, self.papers, self.shares = folder, folder / "papers", shares
        self.socket = folder / "door"
        self.logged = 10
        self.kernels: list[Kernel] = []
        self.begin()

    def begin(self) -> None:
        call = partial(Caller, self.folder / "s")
        join = lambda copies: Member(call, "papers", "files", Buffer(copies))  # noqa: E731
        host = MemberHost(join, self.folder / "nodes")
        record = CallRecord(self.folder / "calls")
        self.keeper = CallKeeper("files", record, host.serve, lambda: self.logged)
        self.door = CallDoor(self.socket, self.keeper)
        self.granted = CallDoor(self.folder / "granted", self.keeper, lambda: True)

    def logs(self, operation: int) -> None:
        """The client has sent home operations up to that one."""
        self.logged = operation
        self.keeper.logged()

    def end(self) -> None:
        self.leave()
        self.door.close()
        self.granted.close()
        self.keeper.close()

    def guest(self, counts: Path | None = None) -> Kernel:
        """Home's own replica."""
        return self._kernel(Kernel(self.keeper.at_home(), counts, 2))

    def distant(self, number: int = 1_000_002) -> Kernel:
        """A replica at a surrogate with a writable grant."""
        granted = self.keeper.elsewhere(granted=lambda: True)
        return self._kernel(Kernel(granted, None, number))

    def stranger(self) -> Kernel:
        """A replica at a surrogate without a grant."""
        return self._kernel(Kernel(self.keeper.elsewhere(), None, 5_000_002))

    def copy(self) -> Kernel:
        """A copy of home's replica."""
        return self._kernel(Kernel(self.keeper.copy(), None, 4_000_002))

    def lent(self) -> Kernel:
        """The same, through the socket of its grant. The caller ends it."""
        return Kernel(
            distant_keeper(self.folder / "granted", ReplicaId("files-1")), None, 3_000_002
        )

    def _kernel(self, made: Kernel) -> Kernel:
        self.kernels.append(made)
        return made

    def leave(self, *kernels: Kernel) -> None:
        for kernel in kernels or tuple(self.kernels):
            self.kernels.remove(kernel)
            kernel.close()

    def restart(self) -> None:
        self.end()
        self.begin()

    @contextlib.contextmanager
    def other(self) -> Iterator[Node]:
        """Another node of the share."""
        copies = self.folder / "copies"
        copies.mkdir()
        member = Member(partial(Caller, self.folder / "s"), "papers", "other", Buffer(copies))
        with contextlib.closing(member):
            yield member.node
        shutil.rmtree(copies)

    def writes(self, name: str, text: str) -> None:
        """Somebody else does."""
        with self.other() as node, open_file(node, name, "w") as file:
            file.write(text)

    def text(self) -> str:
        """What is in the log when nobody has it any more."""
        self.leave()
        return (self.papers / "log").read_text()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.papers.iterdir())

    def nodes(self) -> int:
        return int(self.shares.listed()[0]["nodes"])


def add_line(kernel: Kernel, line: str, operation: int) -> None:
    """What `files` does to append."""
    try:
        file = kernel.lookup("log", operation)
        handle = kernel.open(file, operation, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        handle = kernel.create("log", operation)
        file = kernel.lookup("log", operation)
    kernel.append(file, handle, line.encode(), operation)
    kernel.ask(Opcode.FSYNC, struct.pack("<QII", handle, 0, 0), file, operation)
    kernel.release(file, handle)
