# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""All shares of a home, the socket at which nodes join them, and what is said of them."""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from homeserver.shares.registry import ShareRegistry
from satchel.errors import ConflictError, NotFoundError, SatchelError, StateError
from shares.home import (
    LEASES,
    Channel,
    FaultDetector,
    NodeRecord,
    NodeRegistry,
    Open,
    Share,
    ShareRecord,
    share_status,
)
from shares.node import JoinRequest
from shares.protocol import NodeId
from wire import ConversationListener, Duplex

log = logging.getLogger(__name__)


class Shares:
    """Thread-safe. Who reaches the socket is the owner, or who the owner's client lets in."""

    def __init__(
        self,
        shelf: ShareRegistry,
        socket: Path,
        lease: float,
        detector: FaultDetector = LEASES,
    ) -> None:
        """Open every share and listen. A share that cannot be opened is logged and left out.

        lease: seconds; detector: says when home goes on without a node. Raises what
        ConversationListener does.
        """
        self._detector = detector
        self._shelf = shelf
        self._lease = lease
        self._lock = threading.RLock()
        self._shares: dict[str, Share] = {}
        self._reception = NodeRegistry(self._find, Duplex, shelf.nodes(), self._keep_nodes)
        for name in shelf.names():
            try:
                self._open(shelf.get(name))
            except (SatchelError, OSError) as error:
                log.error("share %s: %s", name, error)
        try:
            self._listener = ConversationListener(socket, self._welcome)
        except BaseException:
            self._close_all()
            raise

    @property
    def socket(self) -> Path:
        return self._listener.path

    def add(self, record: ShareRecord) -> None:
        """Share a folder. Raises ConflictError, NotFoundError where there is no such folder."""
        path = Path(record.path)
        if not path.is_absolute() or not path.is_dir():
            raise NotFoundError(f"no folder {record.path}", fix="give the path of a folder")
        with self._lock:
            for other in self._shares.values():
                there = other.tree.path.resolve()
                here = path.resolve()
                if there == here or there in here.parents or here in there.parents:
                    common = (
                        "is shared already, as" if there == here else "has folders in common with"
                    )
                    raise ConflictError(
                        f"cannot share {path}",
                        why=f"it {common} {other.name}",
                        fix=f"end that one first: `satchel-home share rm {other.name}`",
                    )
            self._shelf.add(record)
            try:
                self._open(record)
            except BaseException:
                self._shelf.remove(record.name)
                raise

    def change(self, name: str, change: Callable[[ShareRecord], ShareRecord]) -> ShareRecord:
        """Other terms, for files that are opened from now on. Raises as `get`, and what `change`
        does."""
        with self._lock:
            share = self.get(name)
            record = change(share.record)
            self._shelf.replace(record)
        share.describe(record)  # without the lock: nodes are asked
        return record

    def remove(self, name: str) -> None:
        """Share it no more. The folder stays as it is."""
        with self._lock:
            share = self._shares.pop(name, None)
        if share:  # without the lock: a node that is lost at this moment is still to be forgotten
            share.close()
        with self._lock:
            self._reception.forget(name)
            self._shelf.remove(name)

    def get(self, name: str) -> Share:
        """Raises NotFoundError."""
        with self._lock:
            if name not in self._shares:
                self._shelf.get(name)
                raise StateError(f"share {name} is not open", why="home's log has the cause")
            return self._shares[name]

    def listed(self) -> list[dict[str, Any]]:
        """The shares by name, with how many nodes each has; for people."""
        found = []
        for name in self._shelf.names():
            share = self._shares.get(name)
            nodes = len(share.sessions) if share else None
            found.append(asdict(self._shelf.get(name)) | {"nodes": nodes})
        return found

    def status(self, name: str) -> dict[str, Any]:
        """What there is to say of a share; docs/commands.md."""
        return share_status(self.get(name))

    def nodes(self) -> dict[str, list[dict[str, Any]]]:
        """The nodes of each share, home's own first: how far each is behind, and whether it is
        connected. What is removed meanwhile is left out."""
        found = {}
        for name in self._shelf.names():
            with contextlib.suppress(NotFoundError, StateError):
                found[name] = self.status(name)["nodes"]
        return found

    def close(self) -> None:
        """End every session; all is durable on return."""
        self._listener.close()
        self._close_all()

    def _close_all(self) -> None:
        with self._lock:
            shares, self._shares = self._shares, {}
        for share in shares.values():
            share.close()

    def _open(self, record: ShareRecord) -> None:
        self._shares[record.name] = Share(
            record,
            self._shelf.folder(record.name),
            lease=self._lease,
            awaited=self._reception.known(record.name),
            gone=self._reception.lost,
            detector=self._detector,
        )

    def _find(self, name: str) -> Share:
        """Raises OSError for the node that asks."""
        share = self._shares.get(name)
        if share is None and name in self._shelf.names():
            raise OSError(errno.EAGAIN, "home cannot open that share; its log has the cause")
        if share is None:
            raise OSError(errno.ENOENT, f"home has no share {name[:80]}")
        return share

    def _keep_nodes(self, nodes: list[NodeRecord]) -> None:
        """For a home that begins again. Where they cannot be kept, it does not wait for the latest:
        that is no reason to have none now."""
        try:
            self._shelf.keep_nodes(nodes)
        except OSError as error:
            log.error("the nodes of shares are not kept: %s", error)

    def welcome(
        self, hello: bytes, admit: Callable[[JoinRequest], JoinRequest], open_channel: Open
    ) -> tuple[bytes, Channel | None, int]:
        """Let a stranger's node join, which comes by another socket than the owner's. As
        `NodeRegistry.welcome`."""
        return self._reception.welcome(hello, admit, open_channel, stranger=True)

    def end_node(self, share: str, node: int, why: str, *, handed_over: bool = False) -> None:
        """Go on without that node, if it is there: what it had is home's, with what the write log
        says. handed_over: it has nothing that home has not been told otherwise, and nobody need
        hear of it."""
        with self._lock:
            found = self._shares.get(share)
        session = found.sessions.get(NodeId(node)) if found else None
        if found and session:
            if handed_over:
                session.leave()
            found.lost(session, why)

    def end_nodes_of(self, processes: Collection[int]) -> int:
        """Go on without the nodes whose last connection came from these processes; how many."""
        with self._lock:
            shares = list(self._shares.values())
        found = [
            (share, session)
            for share in shares
            for session in list(share.sessions.values())
            if isinstance(session.channel, Duplex) and session.channel.caller in processes
        ]
        for share, session in found:
            share.lost(session, "its client was unpaired")
        return len(found)

    def _welcome(self, hello: bytes) -> tuple[bytes, Duplex | None, int]:
        answer, channel, received = self._reception.welcome(hello)
        assert channel is None or isinstance(channel, Duplex)
        return answer, channel, received
