# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""All shares of a home, the socket at which nodes join them, and what is said of them."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from homeserver.shares.shelf import NodeRecord, ShareShelf
from satchel.errors import ConflictError, IntegrityError, NotFoundError, SatchelError, StateError
from satchel.names import check_name
from shares.home import HomeHub, NodeSession, Share, ShareRecord, share_status
from shares.node import Join, Joined, codec
from shares.protocol import NodeId
from wire import Duplex, Listener

log = logging.getLogger(__name__)

NODE_LIMIT = 64
"""Nodes of one share at a time."""


class Shares:
    """Thread-safe. Who reaches the socket is the owner, or who the owner's client lets in."""

    def __init__(self, shelf: ShareShelf, socket: Path, lease: float) -> None:
        """Open every share and listen. A share that cannot be opened is logged and left out.

        lease: seconds. Raises what Listener does.
        """
        self._shelf = shelf
        self._lease = lease
        self._lock = threading.RLock()
        self._shares: dict[str, Share] = {}
        self._lost: dict[str, NodeId] = {}  # those may come back, and keep their numbers
        self._known = {record.token: record for record in shelf.nodes()}
        highest = max((record.node for record in self._known.values()), default=0)
        self._nodes = itertools.count(highest + 1)
        for name in shelf.names():
            try:
                self._open(shelf.get(name))
            except (SatchelError, OSError) as error:
                log.error("share %s: %s", name, error)
        try:
            self._listener = Listener(socket, self._welcome)
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
                    raise ConflictError(
                        f"cannot share {path}", why=f"it has folders in common with {other.name}"
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
            share.record = record
            return record

    def remove(self, name: str) -> None:
        """Share it no more. The folder stays as it is."""
        with self._lock:
            share = self._shares.pop(name, None)
            if share:
                share.close()
            self._known = {t: known for t, known in self._known.items() if known.share != name}
            self._keep_nodes()
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
            awaited=[NodeId(n.node) for n in self._known.values() if n.share == record.name],
            gone=self._forget,
        )

    def _forget(self, session: NodeSession) -> None:
        """A node is lost: home that begins again does not wait for it."""
        with self._lock:
            if self._known.pop(session.token, None):
                self._keep_nodes()
                self._lost[session.token] = session.node

    def _keep_nodes(self) -> None:
        """For a home that begins again. Where they cannot be kept, it does not wait for the latest:
        that is no reason to have none now."""
        try:
            self._shelf.keep_nodes(list(self._known.values()))
        except OSError as error:
            log.error("the nodes of shares are not kept: %s", error)

    def _welcome(self, hello: bytes) -> tuple[bytes, Duplex | None, int]:
        try:
            join = Join.unpack(hello)
            session = self._session(join)
        except OSError as error:
            return codec.encode_refusal(error), None, 0
        except (IntegrityError, SatchelError) as error:
            return codec.encode_refusal(OSError(errno.EINVAL, str(error))), None, 0
        joined = Joined(session.node, session.token, self._lease, session.channel.pause())
        session.heard = time.monotonic()
        assert isinstance(session.channel, Duplex)
        return joined.pack(), session.channel, join.received

    def _session(self, join: Join) -> NodeSession:
        """The conversation that goes on, or a new one. Raises OSError for the node."""
        check_name(join.name, "node")
        with self._lock:
            share = self._shares.get(join.share)
            if share is None and join.share in self._shelf.names():
                raise OSError(errno.EAGAIN, "home cannot open that share; its log has the cause")
            if share is None:
                raise OSError(errno.ENOENT, f"home has no share {join.share[:80]}")
            node = self._node(join)
            session = share.sessions.get(node) if node is not None else None
            if session and session.conversation == join.conversation:
                return session
            if join.received:
                raise OSError(errno.ESTALE, "the lease of this node is over")
            if session:
                share.lost(session, "it has joined anew")
            if len(share.sessions) >= NODE_LIMIT:
                raise OSError(errno.EUSERS, os.strerror(errno.EUSERS))
            token = join.token
            if node is None:
                node, token = NodeId(next(self._nodes)), secrets.token_hex(16)
            if token not in self._known:
                self._lost.pop(token, None)
                self._known[token] = NodeRecord(join.share, node, token)
                self._keep_nodes()
            session = HomeHub(share, node, join.name, token, join.conversation, Duplex).session
            share.join(session)
            return session

    def _node(self, join: Join) -> NodeId | None:
        """Under which number that node is or was here."""
        known = self._known.get(join.token)
        if known and known.share == join.share:
            return NodeId(known.node)
        return self._lost.get(join.token)
