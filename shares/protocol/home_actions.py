# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's machine wants to be done, in this order, by who acts."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from shares.protocol.messages import Carrier, FileId, LogWrite, Message, NodeId

Token = Hashable
"""How who acts names a request of a node's, in order to find where its reply goes."""


@dataclass(frozen=True)
class StoreContent:
    """Put the message's content into home's files; what the log has of these blocks is over."""

    node: NodeId
    message: Carrier


@dataclass(frozen=True)
class Append:
    """Put this into the write log. token: of the request, whose Reply comes next."""

    node: NodeId
    message: LogWrite
    token: Token


@dataclass(frozen=True)
class Replay:
    """The owner is lost: home's files become what the log says, and the log of them is over.
    numbers: of blocks; None: all of the file."""

    file: FileId
    numbers: tuple[int, ...] | None


@dataclass(frozen=True)
class Reply:
    """Answer the request. A Carrier is filled from home's files, as they are now."""

    node: NodeId
    token: Token
    message: Message


@dataclass(frozen=True)
class Ask:
    """Ask a node; its reply goes to `answer` with this number. A Carrier is filled as in Reply."""

    node: NodeId
    number: int
    message: Message


@dataclass(frozen=True)
class FinishOpen:
    """The open is over. native: the node alone uses the file, and writes it under `grant`; else
    that is the last one for all of the file, which has ended. Grants only grow: by this one the
    node knows which NativeGrant and Engage came after the open."""

    node: NodeId
    token: Token
    file: FileId
    native: bool
    grant: int


@dataclass(frozen=True)
class FinishReclaim:
    """Home has these blocks to itself, until `gave` is called with the token."""

    token: Token
    file: FileId


Action = StoreContent | Append | Replay | Reply | Ask | FinishOpen | FinishReclaim
