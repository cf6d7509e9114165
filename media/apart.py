# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The engine of a medium in clear, in a process of its own that can do nothing else.

Anybody may have written such a medium, and its indexes, packs and tables are parsed by code in C++.
So `ConfinedMedium.open` starts a process of `main`. It confines itself to the medium
(`sandbox.confine`) before it looks at it, and does what it is told. Whoever takes that process over
has the medium, which was his anyway, and answers that are looked at here: a value of the wrong
shape is damage.

A channel is one end of a pair of sockets; as many calls are under way as there are channels. On it
each side sends frames: 4 bytes, little-endian, of a head in JSON; 4 of a tail; the head; the tail.
In the head {"bytes": N} stands for the next N bytes of the tail. The head is

    [NUMBER, NAME, ARGUMENT...]        a call, of this side
    [NUMBER, "done", VALUE]            the answer to it
    [NUMBER, "failed", CLASS, WHAT, WHY, FIX, REF]
    [NUMBER, "progress", DONE, TOTAL]  of the other side, before that: answered by "go" or "stop"
    [NUMBER, "records", REFS]          the same; answered by "go" and the records, or by "stop"

Who gave up waiting for an answer passes it over by its number when it comes.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from chunkstore import (
    ENGINES_HERE,
    Buffer,
    ChunkInvalid,
    ChunkMissing,
    MadeGeneration,
    MediaDamaged,
    MediaEngine,
    MediaExists,
    MediaFull,
    MediaGone,
    MediaNotFound,
    MediaRead,
    MediaReadOnly,
    MediaVersion,
    Root,
    StoreState,
    StoreUsage,
    Told,
    split_refs,
)
from sandbox import ConfinementImpossible, confine, require_confinement
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.ids import CHUNK_REF_SIZE

logger = logging.getLogger(__name__)

CHANNELS = 4
"""Calls that are under way at once."""

START_SECONDS = 60.0
"""How long a medium may take to be opened; a pack without an index is read as a whole."""

END_SECONDS = 5.0

HEAD_LIMIT, TAIL_LIMIT = 4 << 20, 1 << 28
"""Bytes."""

TEXT_LIMIT = 1000
"""Characters of what the other side says of an error."""

_START = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from media.apart import main
main(*sys.argv[2:])
"""
_SIZES = struct.Struct("<II")
_RAISED: dict[str, type[SatchelError]] = {
    one.__name__: one
    for one in (
        *(ChunkInvalid, ChunkMissing, MediaDamaged, MediaExists, MediaFull, MediaGone),
        *(MediaNotFound, MediaReadOnly, MediaVersion, StoreUsage),
    )
}
_READ = (int, int, [(int, int, str)], bytes)
_GENERATIONS = [(int, int, [(str, int, bytes)], int, int, str)]


class ReaderGone(UnavailableError):
    """The process that reads a medium has ended, or does not answer."""


class _Channel:
    """One end. One thread at a time; whoever gave up may come again."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._got = bytearray()
        self.number = 0

    def say(self, *head: object) -> None:
        """Raises OSError."""
        tail: list[bytes] = []

        def moved(value: object) -> object:
            tail.append(bytes(value))  # type: ignore[call-overload]
            return {"bytes": len(tail[-1])}

        text = json.dumps(head, default=moved).encode()
        body = b"".join(tail)
        self._end.sendall(_SIZES.pack(len(text), len(body)) + text + body)

    def hear(self, seconds: float | None = None) -> list[Any] | None:
        """The next head; None where the other side has ended. Raises OSError, TimeoutError after
        so many seconds without a byte, and ValueError for what is none."""
        self._end.settimeout(seconds)
        try:
            sizes = self._take(_SIZES.size)
            if sizes is None:
                return None
            size, more = _SIZES.unpack(sizes)
            if size > HEAD_LIMIT or more > TAIL_LIMIT:
                raise ValueError("a frame is too large")
            frame = self._take(_SIZES.size + size + more)
        finally:
            self._end.settimeout(None)
        if frame is None:
            return None
        del self._got[: len(frame)]
        at = _SIZES.size + size

        def back(found: dict[str, Any]) -> bytes:
            nonlocal at
            count = found["bytes"]
            if type(count) is not int or not 0 <= count <= len(frame) - at:
                raise ValueError("a frame has no such bytes")
            at += count
            return frame[at - count : at]

        try:
            head = json.loads(frame[_SIZES.size : _SIZES.size + size], object_hook=back)
        except (KeyError, RecursionError) as error:
            raise ValueError("malformed head") from error
        if type(head) is not list or len(head) < 2:
            raise ValueError("malformed head")
        return head

    def _take(self, size: int) -> bytes | None:
        """So many bytes, which stay. What came before an error is kept."""
        while len(self._got) < size:
            got = self._end.recv(max(1 << 16, min(size - len(self._got), 1 << 20)))
            if not got:
                return None
            self._got += got
        return bytes(self._got[:size])

    def close(self) -> None:
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()


class ConfinedMedium:
    """A medium that a confined process has open. Thread-safe. See MediaEngine."""

    def __init__(self, root: Path, *, writes: bool = True) -> None:
        """Start the process. Raises OSError."""
        self._root = root
        self._closed = False
        self._free: queue.LifoQueue[_Channel] = queue.LifoQueue()
        pairs = [socket.socketpair() for _ in range(CHANNELS)]
        theirs = [pair[1].fileno() for pair in pairs]
        self._channels = [_Channel(pair[0]) for pair in pairs]
        argv = [*_program(), "write" if writes else "read", str(root.absolute())]
        try:
            self._process = subprocess.Popen(
                [*argv, *map(str, theirs)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=theirs,
            )
        except BaseException:
            for channel in self._channels:
                channel.close()
            raise
        finally:
            for _, end in pairs:
                end.close()
        for channel in self._channels:
            self._free.put(channel)

    @classmethod
    def open(cls, root: Path, key: bytes) -> MediaEngine:
        """Return a medium in clear. key: empty. If the kernel confines no process, this one reads
        it, as a person has named the medium. Raises the errors of `Media.open`, and ReaderGone."""
        assert not key, "a key is given to nobody"
        if not _confinable(root):
            return ENGINES_HERE.open(root, key)
        return cls._begun(root, True, "open")

    @classmethod
    def redescribe(cls, root: Path, uuid: str, key: bytes) -> None:
        """The same to describe it anew."""
        assert not key, "a key is given to nobody"
        if not _confinable(root):
            ENGINES_HERE.redescribe(root, uuid, key)
        else:
            cls._begun(root, True, "redescribe", uuid).close()

    @classmethod
    def reading(cls, root: Path) -> ConfinedMedium:
        """A medium to read only. Raises as `open`, ConfinementImpossible, and ReaderGone after
        START_SECONDS without an answer."""
        require_confinement()
        return cls._begun(root, False, "open", seconds=START_SECONDS)

    @classmethod
    def _begun(
        cls, root: Path, writes: bool, *call: object, seconds: float | None = None
    ) -> ConfinedMedium:
        made = cls(root, writes=writes)
        try:
            made._ask(*call, shape=None, seconds=seconds)
        except BaseException:
            made.close()
            raise
        return made

    def close(self) -> None:
        self._closed = True
        for channel in self._channels:
            channel.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def has(self, refs: Buffer) -> list[bool]:
        wanted = bytes(refs)
        found: bytes = self._ask("has", wanted, shape=bytes)
        if len(found) * CHUNK_REF_SIZE != len(wanted):
            raise self._damaged("it says too much")
        return [one != 0 for one in found]

    def records(self, refs: Buffer, seconds: float | None = None) -> tuple[bytes, bytes]:
        """seconds: without a byte, after which ReaderGone is raised."""
        call = ("records", bytes(refs))
        records, damaged = self._ask(*call, shape=(bytes, bytes), seconds=seconds)
        return records, self._refs(damaged)

    def add(self, store: Any, refs: Buffer, again: int, progress: Told) -> int:
        wanted = bytes(refs)
        there = zip(split_refs(wanted), self.has(wanted), strict=True)
        lacking = [ref for ref, here in there if not here]
        for ref, here in zip(lacking, store.has(b"".join(lacking)), strict=True):
            if not here:
                raise ChunkMissing(
                    f"chunk {ref[:20].hex()} is not here",
                    ref=ref,
                    why="the store lacks it",
                )
        written: int = self._ask(
            "add", wanted, again, shape=int, progress=progress, records=store.records
        )
        return written

    def pieces(self, roots: Iterable[Root]) -> tuple[int, int]:
        chunks, pieces = self._ask("pieces", [*roots], shape=(int, int))
        return chunks, pieces

    def read_file(self, path: str) -> bytes:
        data: bytes = self._ask("read_file", path, shape=bytes)
        return data

    def put_file(self, path: str, data: Buffer) -> None:
        self._ask("put_file", path, bytes(data), shape=None)

    def commit(
        self,
        paths: Sequence[str],
        roots: Iterable[Root],
        carried: Iterable[Root],
        partial: Iterable[Root],
        chunks: Buffer,
        keep_packs: bool,
        created: int,
    ) -> tuple[int, int, bytes]:
        named = ([*paths], [*roots], [*carried], [*partial], bytes(chunks))
        call = ("commit", *named, keep_packs, created)
        generation, freed, damaged = self._ask(*call, shape=(int, int, bytes))
        return generation, freed, self._refs(damaged)

    def generations(self) -> list[MadeGeneration]:
        made: list[MadeGeneration] = self._ask("generations", shape=_GENERATIONS)
        return made

    def missing(self, roots: Iterable[Root]) -> bytes:
        return self._refs(self._ask("missing", [*roots], shape=bytes))

    def verify(self, progress: Told) -> MediaRead:
        return self._all_read("verify", progress)

    def rebuild_indexes(self, progress: Told) -> MediaRead:
        return self._all_read("rebuild_indexes", progress)

    def free_bytes(self) -> int:
        count: int = self._ask("free_bytes", shape=int)
        return count

    def chunks(self) -> int:
        count: int = self._ask("chunks", shape=int)
        return count

    def _all_read(self, name: str, progress: Told) -> MediaRead:
        report: MediaRead = self._ask(name, shape=_READ, progress=progress)
        self._refs(report[3])
        return report

    def _refs(self, refs: bytes) -> bytes:
        if len(refs) % CHUNK_REF_SIZE:
            raise self._damaged("it names half of a chunk")
        return refs

    def _damaged(self, why: str) -> MediaDamaged:
        return MediaDamaged(f"cannot read the medium at {self._root}", why=why)

    @contextmanager
    def _channel(self) -> Iterator[_Channel]:
        channel = self._free.get()
        try:
            yield channel
        finally:
            self._free.put(channel)

    def _ask(
        self,
        *call: object,
        shape: object,
        progress: Told | None = None,
        records: Callable[[bytes], bytes] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """What the call gives there. Raises what it raises, and what `progress` and `records`
        raise; MediaDamaged for what is no answer; ReaderGone, StoreState."""
        with self._channel() as channel:
            if self._closed:
                raise StoreState("the medium is closed")
            try:
                head = self._answer(channel, call, progress, records, seconds)
                return _shaped(head, shape)
            except TimeoutError as error:
                raise ReaderGone(f"{self._root} is silent", why="its reader waits") from error
            except OSError as error:
                raise self._gone() from error
            except ValueError as error:
                channel.close()
                raise self._damaged(str(error)) from error

    def _answer(
        self,
        channel: _Channel,
        call: Sequence[object],
        progress: Told | None,
        records: Callable[[bytes], bytes] | None,
        seconds: float | None,
    ) -> object:
        raised: BaseException | None = None
        channel.number += 1
        number = channel.number
        channel.say(number, *call)
        while (head := channel.hear(seconds)) is not None:
            if head[0] != number:
                continue
            match head[1:]:
                case ["done", value]:
                    return value
                case ["failed", *words]:
                    raise raised or _raised(words)
                case ["progress", done, total] if progress:
                    raised = _told(channel, number, progress, *_shaped([done, total], (int, int)))
                case ["records", refs] if records:
                    raised = _told(channel, number, records, _shaped(refs, bytes))
                case _:
                    raise ValueError("the media reader sent a reply to no request")
        raise self._gone()

    def _gone(self) -> ReaderGone:
        return ReaderGone(f"{self._root} cannot be read", why="its reader has ended")


def _confinable(root: Path) -> bool:
    """Whether this kernel confines a process. Decided here, before a byte of the medium is parsed:
    the process that has parsed some may say anything."""
    try:
        require_confinement()
    except ConfinementImpossible as error:
        logger.warning("the medium at %s is read without protection: %s", root, error)
        return False
    return True


def _program() -> list[str]:
    """Python that finds what this one does. It may read its modules when it is confined, so the
    folder that somebody happens to be in is none of them."""
    here = str(Path(__file__).resolve().parents[1])
    path = [here, *(one for one in sys.path if one not in ("", here, str(Path.cwd())))]
    return [sys.executable, "-I", "-c", _START, json.dumps(path)]


def _told(
    channel: _Channel, number: int, do: Callable[..., object], *words: object
) -> BaseException | None:
    """What `do` raised; the other side then stops."""
    try:
        given = do(*words)
    except BaseException as error:
        channel.say(number, "stop")
        return error
    channel.say(number, "go", given if isinstance(given, bytes) else b"")
    return None


def _shaped(value: object, shape: object) -> Any:
    """A value whose parts are of these types, lists as tuples where they have to be. Raises
    ValueError for another one."""
    if isinstance(shape, tuple):
        if type(value) is list and len(value) == len(shape):
            return tuple(_shaped(one, of) for one, of in zip(value, shape, strict=True))
    elif isinstance(shape, list):
        if type(value) is list:
            return [_shaped(one, shape[0]) for one in value]
    elif shape is int:
        if type(value) is int and 0 <= value < 1 << 64:
            return value
    elif value is None if shape is None else type(value) is shape:
        return value
    raise ValueError("its reader gives something else")


def _raised(words: list[Any]) -> SatchelError:
    name, what, why, fix, ref = _shaped(words, (str, str, str, str, bytes))
    made = _RAISED.get(name, MediaDamaged)
    says = {"why": _plain(why), "fix": _plain(fix)}
    if made in (ChunkInvalid, ChunkMissing):
        if len(ref) != CHUNK_REF_SIZE:
            raise ValueError("malformed reference")
        says["ref"] = ref
    return made(_plain(what), **says)


def _plain(text: str) -> str:
    """For a terminal."""
    return "".join(one if one.isprintable() else "?" for one in text[:TEXT_LIMIT])


class _Engine:
    """The other side: what the process has."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._media: Any = None

    def serve(self, channel: _Channel) -> None:
        """Do what is asked, until nobody asks. However that ends, the channel is closed, so nobody
        waits at its other end."""
        with closing(channel):
            while (head := channel.hear()) is not None:
                number, name, *arguments = head
                try:
                    given = self._do(channel, number, name, arguments)
                except OSError:
                    raise  # the channel's: there is nobody to tell
                except Exception as error:
                    channel.say(number, "failed", *_failure(error))
                else:
                    channel.say(number, "done", given)

    def _do(self, channel: _Channel, number: int, name: str, arguments: list[Any]) -> object:
        if name == "open":
            self._media = ENGINES_HERE.open(Path(self._root), b"")
            return None
        if name == "redescribe":
            ENGINES_HERE.redescribe(Path(self._root), arguments[0], b"")
            return None
        if self._media is None:
            raise StateError("the medium is not open")
        turn = threading.Lock()

        def told(*head: object) -> bytes:
            with turn:
                channel.say(number, *head)
                answer = channel.hear()
            if answer is None or answer[1] != "go":
                raise StateError("it was stopped")
            return bytes(answer[2])

        def progress(done: int, total: int) -> None:
            told("progress", done, total)

        if name == "add":
            return self._media.add_asked(
                lambda wanted: told("records", wanted), arguments[0], arguments[1], progress
            )
        if name in ("verify", "rebuild_indexes"):
            return getattr(self._media, name)(progress)
        given = getattr(self._media, name)(*map(_pairs, arguments))
        return bytes(given) if name == "has" else given


def _failure(error: Exception) -> tuple[object, ...]:
    """What is said of it. One of no class of ours is what the medium's bytes have made of the
    engine, as when memory does not suffice for them."""
    if not isinstance(error, SatchelError):
        error = MediaDamaged("the medium cannot be read", why=repr(error))
    ref = getattr(error, "ref", None) or bytes(CHUNK_REF_SIZE)
    return (type(error).__name__, error.what, error.why, error.fix, ref)


def _pairs(argument: object) -> object:
    """Roots came as lists."""
    if not isinstance(argument, list):
        return argument
    return [tuple(one) if isinstance(one, list) else one for one in argument]


def main(way: str, root: str, *channels: str) -> None:
    """Be that process. way: `read` or `write`"""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for who waits for answers
    ends = [_Channel(socket.socket(fileno=int(number))) for number in channels]
    confine([Path(root)], [Path(root)] if way == "write" else [])
    engine = _Engine(root)
    for end in ends[1:]:
        threading.Thread(target=engine.serve, args=(end,), daemon=True).start()
    with suppress(OSError):
        engine.serve(ends[0])
    os._exit(0)
