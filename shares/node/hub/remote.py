# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A hub at the other end of a link to home, and who answers there.

A link carries payloads of bytes in both directions, in order; a `Membership` is one.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Any, Protocol, get_type_hints

from satchel.errors import IntegrityError
from shares.context import Succession
from shares.node.hub import codec
from shares.node.hub.hub import Hub, Lease, Made, Making, Opened, Unmade
from shares.node.operations import Attributes, Changes, Entry, LockKind, Usage
from shares.protocol import FileId, Message, NodeId

log = logging.getLogger(__name__)

CALLS = frozenset(
    {
        "allocate",
        "attributes",
        "beat",
        "change",
        "close",
        "create",
        "entries",
        "forget_locks",
        "get_lock",
        "ids",
        "leave",
        "link",
        "lookup",
        "make",
        "make_again",
        "make_folder",
        "make_link",
        "mark",
        "open",
        "open_all",
        "read_link",
        "remove_folder",
        "rename",
        "set_lock",
        "succeeded",
        "sync",
        "unlink",
        "usage",
        "written",
    }
)
"""The methods of Hub that go as calls."""

POSTED = frozenset({"beat", "close", "ids", "make", "make_again", "succeeded", "written"})
"""Of these, those that nobody waits for."""


class HomeLink(Protocol):
    """A node's way to home, by which payloads go. Thread-safe."""

    @property
    def connected(self) -> bool: ...

    def request(self, payload: bytes, arrived: Callable[[bytes], None] | None = None) -> bytes:
        """The reply. arrived: is called with it on the thread that reads, before anything that
        came after it. Raises OSError(EIO) where the other side is not reached."""
        ...

    def post(
        self,
        payload: bytes,
        arrived: Callable[[bytes], None] | None = None,
        failed: Callable[[OSError], None] | None = None,
    ) -> None:
        """As Hub.post, with the bytes of both messages."""
        ...

    def ping(self, heard: Callable[[], None]) -> None:
        """As Hub.ping."""
        ...

    def serve(self, answer: Callable[[bytes, Callable[[bytes], None]], None]) -> None:
        """Who answers requests of the other side."""
        ...


class RemoteHub:
    """Hub over a link to home. Raises as Hub does; what home says and nobody could mean is
    OSError(EIO)."""

    def __init__(self, link: HomeLink, node: NodeId) -> None:
        self.node = node
        self._link = link

    def post(
        self,
        message: Message,
        arrived: Callable[[Message], None] | None = None,
        failed: Callable[[OSError], None] | None = None,
    ) -> None:
        def take(payload: bytes) -> None:
            try:
                codec.raise_refusal(payload)
                reply = codec.decode(payload)
            except (OSError, IntegrityError) as error:
                if failed is not None:
                    failed(_refusal(error))
                return
            if arrived is not None:
                arrived(reply)

        self._link.post(codec.encode(message), take if arrived is not None else None, failed)

    @property
    def connected(self) -> bool:
        return self._link.connected

    def beat(self, since: float, heard: Callable[[Lease | None], None]) -> None:
        def take(payload: bytes) -> None:
            try:
                lease = codec.decode_reply(payload, Lease)
            except (OSError, IntegrityError) as error:
                log.warning("home does not take heartbeats: %s", error)
                lease = None
            heard(lease)

        self._link.post(codec.encode_call("beat", [since]), take, lambda _: heard(None))

    def ping(self, heard: Callable[[], None]) -> None:
        self._link.ping(heard)

    def leave(self) -> None:
        self._call("leave")

    def listen(
        self,
        answer: Callable[[Message, Callable[[Message], None]], None],
        stale: Callable[[FileId, bytes | None], None],
        disown: Callable[[FileId, Callable[[], None]], None],
    ) -> None:
        def take(payload: bytes, reply: Callable[[bytes], None]) -> None:
            try:
                act(payload, reply)
            except IntegrityError as error:
                reply(codec.encode_refusal(OSError(errno.EINVAL, str(error))))

        def act(payload: bytes, reply: Callable[[bytes], None]) -> None:
            if not codec.is_call(payload):
                answer(codec.decode(payload), lambda message: reply(codec.encode(message)))
                return
            name, values = codec.decode_call(payload)
            if name == "stale":
                stale(*codec.arguments_of(stale_call, values))
                reply(codec.encode_result(None))
            elif name == "disown":
                (folder,) = codec.arguments_of(disown_call, values)
                disown(folder, lambda: reply(codec.encode_result(None)))
            else:
                raise IntegrityError("a hub asked for what nodes do not have", why=name)

        self._link.serve(take)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._result(name, self._link.request(codec.encode_call(name, list(arguments))))

    def _result(self, name: str, payload: bytes) -> Any:
        hint = get_type_hints(getattr(Hub, name))["return"]
        try:
            return codec.decode_reply(payload, hint)
        except IntegrityError as error:
            raise _refusal(error) from error

    def lookup(self, parent: FileId, name: bytes) -> Entry:
        return self._call("lookup", parent, name)  # type: ignore[no-any-return]

    def attributes(self, file: FileId) -> Attributes:
        return self._call("attributes", file)  # type: ignore[no-any-return]

    def change(self, file: FileId, changes: Changes) -> Attributes:
        return self._call("change", file, changes)  # type: ignore[no-any-return]

    def allocate(self, file: FileId, mode: int, offset: int, length: int) -> None:
        self._call("allocate", file, mode, offset, length)

    def read_link(self, file: FileId) -> bytes:
        return self._call("read_link", file)  # type: ignore[no-any-return]

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> Made:
        return self._call("make_folder", parent, name, mode, uid, gid)  # type: ignore[no-any-return]

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> Made:
        return self._call("make_link", parent, name, target, uid, gid)  # type: ignore[no-any-return]

    def link(self, file: FileId, parent: FileId, name: bytes) -> Made:
        return self._call("link", file, parent, name)  # type: ignore[no-any-return]

    def unlink(self, parent: FileId, name: bytes) -> Unmade:
        return self._call("unlink", parent, name)  # type: ignore[no-any-return]

    def remove_folder(self, parent: FileId, name: bytes) -> Unmade:
        return self._call("remove_folder", parent, name)  # type: ignore[no-any-return]

    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> tuple[Attributes | None, Made]:
        return self._call("rename", parent, name, new_parent, new_name, flags)  # type: ignore[no-any-return]

    def entries(self, folder: FileId, most: int) -> list[Entry]:
        return self._call("entries", folder, most)  # type: ignore[no-any-return]

    def usage(self) -> Usage:
        return self._call("usage")  # type: ignore[no-any-return]

    def create(
        self, parent: FileId, name: bytes, mode: int, uid: int, gid: int, exclusive: bool
    ) -> tuple[Made, Opened]:
        return self._call("create", parent, name, mode, uid, gid, exclusive)  # type: ignore[no-any-return]

    def ids(self, told: Callable[[FileId, int], None]) -> None:
        def take(found: Any) -> None:
            if isinstance(found, tuple):
                told(*found)

        self._post("ids", [], tuple[FileId, int], take)

    def make(
        self, making: Making, answered: Callable[[tuple[Made, Opened] | OSError | None], None]
    ) -> None:
        self._post("make", [making], tuple[Made, Opened], answered)

    def make_again(self, making: Making, answered: Callable[[int | OSError | None], None]) -> None:
        self._post("make_again", [making], int, answered)

    def _post(
        self, name: str, arguments: list[Any], hint: Any, answered: Callable[[Any], None]
    ) -> None:
        """answered: gets the result, or home's refusal; None where there will be none."""

        def take(payload: bytes) -> None:
            try:
                found = codec.decode_reply(payload, hint)
            except (OSError, IntegrityError) as error:
                found = _refusal(error)
            answered(found)

        self._link.post(codec.encode_call(name, arguments), take, lambda _: answered(None))

    def open(self, file: FileId, writes: bool, cut: bool) -> Opened:
        return self._call("open", file, writes, cut)  # type: ignore[no-any-return]

    def mark(self, file: FileId, mark: str) -> None:
        self._call("mark", file, mark)

    def open_all(self, files: list[FileId]) -> list[Opened | None]:
        return self._call("open_all", files)  # type: ignore[no-any-return]

    def succeeded(self, seen: list[Succession], told: Callable[[list[Succession]], None]) -> None:
        def take(found: Any) -> None:
            if isinstance(found, list):
                told(found)

        self._post("succeeded", [seen], list[Succession], take)

    def written(self, file: FileId, told: Callable[[Attributes | None], None]) -> None:
        self._say("written", file, told)

    def close(self, file: FileId, closed: Callable[[Attributes | None], None]) -> None:
        self._say("close", file, closed)

    def _say(self, name: str, file: FileId, told: Callable[[Attributes | None], None]) -> None:
        def take(found: Attributes | OSError | None) -> None:
            told(found if isinstance(found, Attributes) else None)

        self._post(name, [file], Attributes | None, take)

    def sync(self, file: FileId) -> None:
        self._call("sync", file)

    def get_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None:
        return self._call("get_lock", file, owner, start, end, kind)  # type: ignore[no-any-return]

    def set_lock(
        self, file: FileId, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None:
        self._call("set_lock", file, owner, start, end, kind, pid, wait)

    def forget_locks(self, file: FileId, owner: int) -> None:
        self._call("forget_locks", file, owner)


def _result(found: tuple[Any, ...]) -> bytes:
    """What a call that is not waited for says: one value or several, or that it was refused."""
    value = found[0] if len(found) == 1 else found
    return codec.encode_refusal(value) if isinstance(value, OSError) else codec.encode_result(value)


def _refusal(error: Exception) -> OSError:
    return error if isinstance(error, OSError) else OSError(errno.EIO, str(error))


def stale_call(file: FileId, name: bytes | None) -> None:
    """What a hub calls at its node when a name or a file's attributes are others."""


def disown_call(folder: FileId) -> None:
    """What a hub calls at its node when another one is about to be told of its own folder."""


def answer_request(hub: Hub, payload: bytes, reply: Callable[[bytes], None]) -> None:
    """Have `hub` do what a node's request says. A call blocks as long as that takes; a request
    about blocks does not, and its reply is handed on where hub.post has it arrive. Raises
    nothing: what cannot be meant is answered with EINVAL.
    """
    try:
        if codec.is_call(payload):
            name, values = codec.decode_call(payload)
            if name not in CALLS:
                raise IntegrityError("a node called what hubs do not have", why=name)
            arguments = codec.arguments_of(getattr(Hub, name), values)
            if name in POSTED:
                getattr(hub, name)(*arguments, lambda *found: reply(_result(found)))
            else:
                reply(codec.encode_result(getattr(hub, name)(*arguments)))
        else:
            message = codec.decode(payload)
            hub.post(
                message,
                lambda answer: reply(codec.encode(answer)),
                lambda error: reply(codec.encode_refusal(error)),
            )
    except OSError as error:
        reply(codec.encode_refusal(error))
    except IntegrityError as error:
        reply(codec.encode_refusal(OSError(errno.EINVAL, str(error))))
