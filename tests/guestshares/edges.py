# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Surrogates that were granted the share of tests/guestshares/home.py."""

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

from guestshares import EdgeKeeper
from guestshares.kernel import Opcode
from homeserver.edge import EdgeDoors, GrantRegistry, ShareGrant
from satchel.ids import ReplicaId
from satchel.paths import edge_sockets
from surrogate.guests import edge_keeper
from tests.guestshares.home import Home
from tests.guestshares.kernel import Kernel
from tests.waiting import eventually

WRITE_FLAGS = 1  # O_WRONLY


class Edges:
    """The doors of a home, and guests that come through them."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.shelf = GrantRegistry(home.folder / "grants.json")
        self.begin()
        self.kernels: list[Kernel] = []
        self.places = 0

    def begin(self) -> None:
        self.doors = EdgeDoors(
            self.home.folder,
            self.shelf,
            self.home.shares,
            lambda service: self.home.keeper,
            lambda service: "papers",
        )

    def grant(self, surrogate: str = "near", *, writable: bool = True) -> None:
        self.doors.grant(ShareGrant("papers", "files", surrogate, writable))

    def guest(
        self, surrogate: str = "near", number: int = 5_000_002, *, writable: bool = True
    ) -> Kernel:
        """A replica at a surrogate that has a grant."""
        keeper = self.keeper(surrogate, writable=writable)
        kernel = Kernel(keeper, None, number)
        self.kernels.append(kernel)
        return kernel

    def keeper(self, surrogate: str, *, writable: bool = True, log: str = "async") -> EdgeKeeper:
        node, calls = (self.home.folder / name for name in edge_sockets("files", surrogate))
        self.places += 1
        return edge_keeper(
            calls,
            node,
            ReplicaId(f"files-{self.places}"),
            share="papers",
            service="files",
            folder=self.home.folder / f"nodes-{self.places}",
            writable=writable,
            synchronous=log == "sync",
        )

    def leave(self, kernel: Kernel) -> None:
        self.kernels.remove(kernel)
        kernel.close()

    def close(self) -> None:
        for kernel in tuple(self.kernels):
            self.leave(kernel)
        self.doors.close()


def edge_of(kernel: Kernel) -> EdgeKeeper:
    assert isinstance(kernel.keeper, EdgeKeeper)
    return kernel.keeper


def leads(kernel: Kernel, home: Home, operation: int) -> int:
    """Have it ask until it leads; the operation after that."""
    edge = edge_of(kernel)

    def asked() -> bool:
        nonlocal operation
        if edge.state.value == "leads":
            return True
        home.logs(operation)
        kernel.ask(Opcode.LOOKUP, b"nothing\0", operation=operation)
        kernel.calls.finished(operation)
        operation += 1
        return False

    assert eventually(asked)
    return operation + 1


def write_at(kernel: Kernel, file: int, handle: int, data: bytes, operation: int) -> None:
    about = (handle, 0, len(data), 2, kernel.owner, WRITE_FLAGS, 0)
    body = struct.pack("<QQIIQII", *about) + data
    kernel._good(*kernel.ask(Opcode.WRITE, body, file, operation))


@contextlib.contextmanager
def edges_of(home: Home) -> Iterator[Edges]:
    made = Edges(home)
    try:
        yield made
    finally:
        made.close()


def granted_folder(home: Home) -> Path:
    return home.papers
