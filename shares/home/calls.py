# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's answers to the calls of `Hub`."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from satchel.errors import IntegrityError
from shares.context import Succession
from shares.home.directory.strangers import Strangers
from shares.home.nodes.session import NodeSession
from shares.home.share import Share
from shares.node import SUCCESSIONS, Call, Hub, LeaseGrant, codec
from shares.protocol import NodeId

P = ParamSpec("P")
R = TypeVar("R")

_Answer = Callable[[NodeSession, list[Any]], bytes]


def _entry(call: Call[P, R], act: Callable[Concatenate[NodeSession, P], R]) -> tuple[str, _Answer]:
    """Return a row of the table: `act` answers the call for a node."""
    untyped: Callable[..., R] = act  # mypy has compared the parameters with those of the call

    def answer(session: NodeSession, values: list[Any]) -> bytes:
        return codec.encode_result(untyped(session, *call.arguments(values)))

    return call.name, answer


def _any(act: Callable[P, R]) -> Callable[Concatenate[NodeSession, P], R]:
    """Let `act`, which does not depend on the node, answer for each."""

    def done(_: NodeSession, /, *arguments: P.args, **named: P.kwargs) -> R:
        return act(*arguments, **named)

    return done


def _numbered(act: Callable[Concatenate[NodeId, P], R]) -> Callable[Concatenate[NodeSession, P], R]:
    """Let `act` answer by the node's number."""

    def done(session: NodeSession, /, *arguments: P.args, **named: P.kwargs) -> R:
        return act(session.node, *arguments, **named)

    return done


def _of_strangers(calls: Strangers) -> dict[str, _Answer]:
    return dict(
        (
            _entry(Hub.change, calls.change),
            _entry(Hub.create, calls.create),
            _entry(Hub.link, calls.link),
            _entry(Hub.make, calls.made_ahead),
            _entry(Hub.make_again, calls.made_again),
            _entry(Hub.make_folder, calls.make_folder),
            _entry(Hub.make_link, calls.make_link),
        )
    )


class HomeCalls:
    """The answers of one share to its nodes. Thread-safe."""

    def __init__(self, share: Share) -> None:
        self._share = share
        names, files, locks = share.names, share.files, share.locks
        self._table = dict(
            (
                _entry(Hub.allocate, share.allocation.allocate),
                _entry(Hub.attributes, share.attributes.get),
                _entry(Hub.beat, self._beat),
                _entry(Hub.change, share.attributes.change),
                _entry(Hub.close, files.close),
                _entry(Hub.create, names.create),
                _entry(Hub.entries, names.entries),
                _entry(Hub.forget_locks, _numbered(locks.forget)),
                _entry(Hub.get_lock, _numbered(locks.get)),
                _entry(Hub.ids, share.creations.give_ids),
                # The session ends after the answer, because its end discards unsent payloads.
                _entry(Hub.leave, lambda session: None),
                _entry(Hub.link, names.link),
                _entry(Hub.lookup, names.lookup),
                _entry(Hub.make, share.creations.made_ahead),
                _entry(Hub.make_again, share.creations.made_again),
                _entry(Hub.make_folder, names.make_folder),
                _entry(Hub.make_link, names.make_link),
                _entry(Hub.mark, files.mark),
                _entry(Hub.open, files.open),
                _entry(Hub.open_all, files.open_all),
                _entry(Hub.read_link, _any(share.tree.read_link)),
                _entry(Hub.remove_folder, names.remove_folder),
                _entry(Hub.rename, names.rename),
                _entry(Hub.seek, share.allocation.seek),
                _entry(Hub.set_lock, _numbered(locks.set)),
                _entry(Hub.succeeded, self._succeeded),
                _entry(Hub.sync, _any(share.blocks.sync)),
                _entry(Hub.unlink, names.unlink),
                _entry(Hub.usage, _any(share.tree.usage)),
                _entry(Hub.written, files.written),
            )
        )
        self._of_strangers = self._table | _of_strangers(share.strangers)

    def _beat(self, session: NodeSession, since: float) -> LeaseGrant:
        told = [session.conflicts.popleft() for _ in range(len(session.conflicts))]
        return LeaseGrant(self._share.lease, self._share.lost_since(since), told)

    def _succeeded(self, session: NodeSession, seen: list[Succession]) -> list[Succession]:
        return self._share.context.take(seen, SUCCESSIONS)

    def perform(self, session: NodeSession, payload: bytes, reply: Callable[[bytes], None]) -> None:
        """Answer a node's request. A call blocks until it is done. A request about blocks does not
        block, and its reply comes in the order of the directory. An OSError is sent as the reply;
        EINVAL is the reply to a malformed request."""
        try:
            if codec.is_call(payload):
                name, values = codec.decode_call(payload)
                table = self._of_strangers if session.stranger else self._table
                if name not in table:
                    raise IntegrityError("unknown call of a node", why=name)
                reply(table[name](session, values))
                return
            message = codec.decode(payload)
            size = len(getattr(message, "data", b""))
            session.count("in", type(message).__name__, size + 25)
            self._share.coherence.request(
                session,
                message,
                lambda answer: reply(codec.encode(answer)),
                lambda error: reply(codec.encode_refusal(error)),
            )
        except OSError as error:
            reply(codec.encode_refusal(error))
        except IntegrityError as error:
            reply(codec.encode_refusal(OSError(errno.EINVAL, str(error))))
