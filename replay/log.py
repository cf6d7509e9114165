# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The operation log: the operations since a checkpoint, numbered without gaps, in segment files.

    state    append                      read, last, durable
    OPEN     adds an operation           work
    FAILED   raises the first failure    work as far as memory and the medium still give
    CLOSED   StateError                  StateError (numbers stay)

A failed append that could be taken back leaves the log OPEN (a full medium); one after which
nobody knows what is on the medium makes it FAILED: open the log anew. Either way the operation
does not count as logged, and `durable` says what is on the medium.

The torn end that a crash leaves is cleared by `Log.open`. Damage with valid records after it is
LogCorrupt. Damage of the very last record cannot be told from a torn end: `torn` reports both.

Records are sealed under the log's keys (replay/chain.py). What somebody else wrote is read all the
same, and `doubtful` says what that is: what follows from it is for the caller to decide.
"""

from __future__ import annotations

import bisect
import contextlib
import enum
import errno
import fcntl
import os
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from replay.chain import SEAL_SIZE, TRAILER_SIZE, KeyRing, encode_trailer, seal
from replay.durability import Durability
from replay.operations import Operation, OperationGap, RecordInvalid
from replay.secrecy import conceal, opens, reveal
from replay.segments import (
    BASE,
    SEGMENT_HEADER_SIZE,
    VOUCHER,
    Fault,
    LogCorrupt,
    LogReadOnly,
    MediaError,
    Segment,
    SegmentKey,
    clear,
    encode_header,
    fresh_segment,
    make_log_folder,
    media_error,
    on_media,
    remove,
    scan_segment,
    segment_path,
    segment_paths,
    write_segment,
)
from replay.vouching import doubtful_in, lacks_voucher
from satchel.errors import ConflictError, NotFoundError, SatchelError, StateError
from satchel.files import open_regular
from satchel.ids import OperationNumber

SEGMENT_BYTES = 1 << 20
"""What a segment has from its beginning. A new one begins where a record does not fit."""

RECENT_BYTES = 32 << 20
RECENT_COUNT = 4096
"""How much of the newest operations is kept in memory: reading those needs no medium."""


class LogBusy(ConflictError):
    """Another program has the log open for writing."""


class OperationsCut(NotFoundError):
    """The log no longer has these operations."""


class LogState(enum.Enum):
    """See the table at the top."""

    OPEN = "open"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True)
class TornEnd:
    """What `Log.open` cleared: the name of the file, from which byte on, how many bytes."""

    segment: str
    offset: int
    size: int
    why: str


class Log:
    """The log at a path: the segments PATH-NNNNNNNN.log, and PATH.lock for the one writer. Any
    number of threads may read meanwhile."""

    def __init__(
        self,
        path: Path,
        segments: list[Segment],
        durability: Durability,
        segment_bytes: int,
        keys: KeyRing | None,
        secret: bytes | None,
    ) -> None:
        """Not for callers: see `open`."""
        self.path = path
        self.torn: TornEnd | None = None
        self.doubtful = doubtful_in(segments, keys)
        """The operations that the log had when it was opened, and that no key that counts now has
        sealed; without keys, those that the secret does not open."""
        self._unsure = set(self.doubtful)  # nothing that is written vouches for these
        self._keys = keys
        self._sealing = SegmentKey.by(keys)
        self._secret = secret
        self._segments = segments
        self._durability = durability
        self._segment_bytes = segment_bytes
        self._append_lock = threading.Lock()  # held while the medium is written to
        self._lock = threading.Lock()  # guards everything below; never held during IO
        self._state = LogState.OPEN
        self._failure: MediaError | None = None
        self._last = self._durable = segments[-1].last if segments else OperationNumber(0)
        self._recent: dict[OperationNumber, Operation] = {}
        self._recent_bytes = 0
        self._fd = -1
        self._lock_fd = -1
        self._closing = threading.Event()
        self._flusher: threading.Thread | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        after: OperationNumber = OperationNumber(0),  # noqa: B008
        durability: Durability = "each",
        interval_s: float = 1.0,
        segment_bytes: int = SEGMENT_BYTES,
        read_only: bool = False,
        keys: KeyRing | None = None,
        secret: bytes | None = None,
    ) -> Log:
        """The log at a path, whose folder is made if need be; `after`: where a new log starts.

        keys: the current one seals what is appended.
        secret: 32 bytes, under which operations are concealed there; without one they are in clear.
        Without either nothing is doubtful. A doubtful one that is in clear is read as it stands.
        read_only: changes nothing, not even a torn end, and takes no lock; append raises
        LogReadOnly. Raises LogCorrupt, LogUnsupported, LogBusy, LogFull, LogReadOnly,
        LogGone, NotRegular.
        """
        with on_media(f"cannot open operation log {path}"):
            if not read_only:
                make_log_folder(path.parent)
            lock_fd = -1 if read_only else _lock(path)
            try:
                segments, torn = _load(path, keys, secret, repair=not read_only)
                if not segments and not read_only:
                    segments = [fresh_segment(path, after, segment_bytes, SegmentKey.by(keys))]
                log = cls(path, segments, durability, segment_bytes, keys, secret)
                log.torn = torn
                log._lock_fd = lock_fd
                if not read_only:
                    log._fd = open_regular(segments[-1].path, os.O_WRONLY)
            except BaseException:
                _let_go(lock_fd)
                raise
        if durability == "interval" and not read_only:
            log._start_flusher(interval_s)
        return log

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether a log was begun at that path. Raises LogGone."""
        with on_media(f"cannot look for operation log {path}"):
            return path.parent.exists() and bool(segment_paths(path))

    @property
    def state(self) -> LogState:
        """See the table at the top."""
        return self._state

    @property
    def first(self) -> OperationNumber:
        """The number of the first operation that it has; `last + 1` if it has none."""
        with self._lock:
            return self._first()

    @property
    def last(self) -> OperationNumber:
        """The number of the last operation that was logged, kept or cut; 0 before the first."""
        return self._last

    @property
    def durable(self) -> OperationNumber:
        """The last operation that is on the medium for certain."""
        return self._durable

    def append(self, operation: Operation) -> None:
        """Logs the operation that follows `last`; with "each", it is on the medium on return.

        Raises OperationGap, LogFull (the log is as before), LogReadOnly, LogGone, StateError.
        """
        with self._append_lock:
            self._check_writable()
            if operation.number != self._last + 1:
                raise OperationGap(
                    f"cannot log in {self.path}", number=operation.number, last=self._last
                )
            kept = conceal(self._secret, operation) if self._secret else operation
            if self._segments[-1].epoch != self._sealing.epoch:
                self._begin_epoch(kept.record_size)
            elif self._segments[-1].full(kept.record_size, self._segment_bytes):
                self._roll(kept.record_size)
            sealed = self._write(kept)
            with self._lock:
                self._segments[-1].add(kept.record_size, sealed)
                self._last = operation.number
                if self._durability == "each":
                    self._durable = operation.number
                self._remember(operation)

    def vouch(self) -> None:
        """Let the current key vouch for all operations that the log has, which the caller knows to
        be the service's. From then on they count though an earlier key has sealed them. Without
        keys, do nothing. Raises LogFull, LogReadOnly, LogGone, StateError."""
        with self._append_lock:
            self._check_writable()
            self._unsure.clear()
            if self._keys and lacks_voucher(self._segments, self._sealing.epoch):
                self._begin_epoch(0)

    def sync(self) -> None:
        """Everything appended so far is on the medium on return. Raises as append does."""
        with self._append_lock:
            self._check_writable()
            self._sync("cannot sync")

    def read(self, after: OperationNumber) -> Iterator[Operation]:
        """The operations that follow number `after`, up to the last one logged as it gets there.

        Raises OperationsCut, LogCorrupt (the medium went bad since it was opened), LogGone.
        """
        number = OperationNumber(after + 1)
        with _SegmentReader(self._secret, self.doubtful) as reader:
            while (found := self._find(number)) is not None:
                if isinstance(found, Segment):
                    operation = reader.read(found, number)
                    if operation is None:
                        continue  # the log was cut meanwhile: look again
                    yield operation
                else:
                    yield found
                number = OperationNumber(number + 1)

    def cut(self, upto: OperationNumber) -> None:
        """Forgets the operations up to that number, which may be beyond `last`.

        A crash at any point leaves the log as before, or cut, or cut less far (at a segment's end).
        Raises LogFull, LogReadOnly, LogGone (it may be cut or not, and is consistent), StateError.
        """
        with self._append_lock:
            self._check_writable()
            with on_media(f"cannot cut operation log {self.path}"):
                # Whole segments go first: on a full medium that makes room for the rest.
                self._unsure = {number for number in self._unsure if number > upto}
                whole = [s for s in self._segments[:-1] if s.last <= upto]
                self._drop(whole, self._segments[len(whole) :])
                if upto < self._segments[0].first:
                    return
                kept = self._keep_after(upto)
                if kept[-1] is not self._segments[-1]:
                    self._use(kept[-1])
                with self._lock:
                    self._last = OperationNumber(max(self._last, upto))
                    self._durable = OperationNumber(max(self._durable, upto))
                self._drop([s for s in self._segments if s not in kept], kept)

    def start_from(self, base: OperationNumber) -> None:
        """Lets a log without operations go on after operation `base`, whatever it had before.

        Raises StateError if it has operations, else as cut does.
        """
        with self._append_lock:
            self._check_writable()
            if self._last >= self._first():
                raise StateError(
                    f"cannot start {self.path} from operation {base}",
                    why=f"it has operations {self._first()} to {self._last}",
                    fix="cut the log first",
                )
            if base == self._last:
                return
            with on_media(f"cannot start operation log {self.path} anew"):
                for old in self._segments:
                    remove(old.path)
                made = fresh_segment(self.path, base, self._segment_bytes, self._sealing)
                self._use(made)
            with self._lock:
                self._segments = [made]
                self._last = self._durable = base

    def close(self) -> None:
        """Syncs what can be synced and lets the folder go. Never raises; idempotent."""
        self._closing.set()
        if self._flusher is not None:
            self._flusher.join()
        with self._append_lock:
            if self._state is LogState.CLOSED:
                return
            if self._state is LogState.OPEN and self._fd >= 0:
                with contextlib.suppress(SatchelError):
                    self._sync("cannot sync")
            with self._lock:
                self._state = LogState.CLOSED
            _let_go(self._fd)
            _let_go(self._lock_fd)
            self._fd = self._lock_fd = -1

    def _find(self, number: OperationNumber) -> Operation | Segment | None:
        """Where operation `number` is: in memory, in a segment, or nowhere yet."""
        with self._lock:
            if self._state is LogState.CLOSED:
                raise StateError(f"cannot read operation log {self.path}", why="it is closed")
            if number > self._last:
                return None
            if number < self._first():
                raise OperationsCut(
                    f"operation {number} is not in {self.path} any more",
                    why=f"the log starts with {self._first()}",
                    fix="start from a newer checkpoint",
                )
            if number in self._recent:
                return self._recent[number]
            at = bisect.bisect_right(self._segments, number, key=lambda segment: segment.first)
            return self._segments[at - 1]

    def _first(self) -> OperationNumber:
        if not self._segments:
            return OperationNumber(self._last + 1)
        return self._segments[0].first

    def _remember(self, operation: Operation) -> None:
        self._recent[operation.number] = operation
        self._recent_bytes += len(operation.payload)
        while self._recent_bytes > RECENT_BYTES or len(self._recent) > RECENT_COUNT:
            oldest = self._recent.pop(next(iter(self._recent)))
            self._recent_bytes -= len(oldest.payload)

    def _check_writable(self) -> None:
        if self._state is LogState.CLOSED:
            raise StateError(f"cannot write operation log {self.path}", why="it is closed")
        if self._failure is not None:
            failure = self._failure
            raise type(failure)(failure.what, why=failure.why, fix=failure.fix)
        if self._fd < 0:
            raise LogReadOnly(f"cannot write operation log {self.path}", why="opened to be read")

    def _fail(self, what: str, error: OSError) -> MediaError:
        """Nobody knows any more what is on the medium: the one way to FAILED."""
        failure = media_error(f"{what} in {self.path}", error)
        with self._lock:
            self._state, self._failure = LogState.FAILED, failure
        return failure

    def _write(self, operation: Operation) -> bytes:
        """Returns the seal."""
        what = f"cannot log operation {operation.number}"
        segment = self._segments[-1]
        end = segment.end
        record = operation.encode()
        sealed = seal(self._sealing.key, segment.seal, record)
        left = memoryview(record + encode_trailer(sealed))
        stop = end + len(left)
        try:
            while left:
                left = left[os.pwrite(self._fd, left, stop - len(left)) :]
        except OSError as error:
            try:
                os.ftruncate(self._fd, end)
            except OSError:
                raise self._fail(what, error) from error
            raise media_error(f"{what} in {self.path}", error) from error
        if self._durability == "each":
            self._sync_file(what)
        return sealed

    def _sync(self, what: str) -> None:
        self._sync_file(what)
        with self._lock:
            self._durable = self._last

    def _sync_file(self, what: str) -> None:
        """fdatasync, and a look at the folder: a file that is gone from it is no log."""
        try:
            os.fdatasync(self._fd)
            ours, there = os.fstat(self._fd), self._segments[-1].path.stat()
            if (ours.st_dev, ours.st_size) != (there.st_dev, there.st_size):
                raise OSError(errno.ESTALE, "another file took its place")
        except OSError as error:
            raise self._fail(what, error) from error

    def _roll(self, record_size: int) -> None:
        """Goes on in a new segment, which has room for a record of that size. What can run short of
        room comes before what changes."""
        self._sync("cannot finish a segment")
        first = OperationNumber(self._last + 1)
        path = segment_path(self.path, first)
        with on_media(f"cannot start a segment of {self.path}"):
            size = max(self._segment_bytes, SEGMENT_HEADER_SIZE + record_size + TRAILER_SIZE)
            before, flags = self._segments[-1].seal, 0 if self._unsure else VOUCHER
            write_segment(path, first, flags, before, size=size, sealing=self._sealing)
            self._use(segment := Segment(path, first, before=before, seal=before))
            segment.sealed_by(self._sealing, flags)
        with self._lock:
            self._segments = [*self._segments, segment]

    def _begin_epoch(self, record_size: int) -> None:
        """Goes on under the current key: in a new segment, or in the last one if it has no
        operations, whose header is within one sector."""
        last = self._segments[-1]
        if last.offsets:
            self._roll(record_size)
            return
        flags = (BASE if last.base else 0) | (0 if self._unsure else VOUCHER)
        header = encode_header(last.first, flags, last.before, self._sealing)
        with on_media(f"cannot change the key of {self.path}"):
            os.pwrite(self._fd, header, 0)
            os.fdatasync(self._fd)
        last.sealed_by(self._sealing, flags)

    def _use(self, segment: Segment) -> None:
        fd = open_regular(segment.path, os.O_WRONLY)
        _let_go(self._fd)
        self._fd = fd

    def _keep_after(self, upto: OperationNumber) -> list[Segment]:
        """The segments with what follows `upto` and nothing else; makes the first if need be."""
        first = OperationNumber(upto + 1)
        for index, segment in enumerate(self._segments):
            if segment.first == first:
                return self._segments[index:]
            if segment.first < first <= segment.last:
                return [self._split(segment, first), *self._segments[index + 1 :]]
        return [fresh_segment(self.path, upto, self._segment_bytes, self._sealing)]

    def _drop(self, old: list[Segment], kept: list[Segment]) -> None:
        """Forgets segments, the oldest first, so that a crash leaves no hole."""
        with self._lock:
            for segment in old:
                segment.cut = True
            self._segments = kept
            for number in [n for n in self._recent if n < kept[0].first]:
                self._recent_bytes -= len(self._recent.pop(number).payload)
        for segment in old:
            remove(segment.path)

    def _split(self, segment: Segment, first: OperationNumber) -> Segment:
        offset, _ = segment.extent(first)
        with open(open_regular(segment.path, os.O_RDONLY), "rb") as file:  # noqa: PTH123
            file.seek(offset - TRAILER_SIZE)
            before = file.read(TRAILER_SIZE)[:SEAL_SIZE]
            records = file.read(segment.end - offset)
        sealing = SegmentKey.by(self._keys, segment.epoch)
        made = Segment(segment_path(self.path, first), first, base=True, before=before)
        made.sealed_by(sealing, BASE)
        for number in range(first, segment.last + 1):
            made.add(segment.extent(OperationNumber(number))[1], segment.seal)
        size = self._segment_bytes
        write_segment(made.path, first, BASE, before, records, size=size, sealing=sealing)
        return made

    def _start_flusher(self, interval_s: float) -> None:
        def flush() -> None:
            while not self._closing.wait(interval_s):
                if self._durable < self._last:
                    with contextlib.suppress(SatchelError):
                        self.sync()

        self._flusher = threading.Thread(target=flush, name="log-flusher", daemon=True)
        self._flusher.start()


class _SegmentReader:
    """Keeps the segment open that was read last."""

    def __init__(self, secret: bytes | None, doubtful: Collection[OperationNumber]) -> None:
        self._secret = secret
        self._doubtful = doubtful
        self._segment: Segment | None = None
        self._fd = -1

    def __enter__(self) -> _SegmentReader:
        return self

    def __exit__(self, *_: object) -> None:
        _let_go(self._fd)

    def read(self, segment: Segment, number: OperationNumber) -> Operation | None:
        """None: the segment was cut from the log before it could be opened."""
        with on_media(f"cannot read operation {number} from {segment.path}"):
            if segment is not self._segment:
                try:
                    fd = open_regular(segment.path, os.O_RDONLY)
                except FileNotFoundError:
                    if not segment.cut:
                        raise
                    return None
                self.__exit__()
                self._fd, self._segment = fd, segment
            offset, size = segment.extent(number)
            record = os.pread(self._fd, size, offset)
        try:
            operation = Operation.decode(record)
            if self._secret and (number not in self._doubtful or opens(self._secret, operation)):
                operation = reveal(self._secret, operation)
        except RecordInvalid as error:
            raise LogCorrupt(segment.path, offset, error.why or error.what, number - 1) from error
        if operation.number != number:
            why = f"it is operation {operation.number}, not {number}"
            raise LogCorrupt(segment.path, offset, why, number - 1)
        return operation


def _lock(log: Path) -> int:
    """A descriptor that holds the log. On a file system without locks nothing is held."""
    fd = open_regular(log.with_name(f"{log.name}.lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        _let_go(fd)
        raise LogBusy(
            f"operation log {log} is in use",
            why="another program writes to it",
            fix="stop that program, or open the log to be read only",
        ) from error
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            _let_go(fd)
            raise
    return fd


def _let_go(fd: int) -> None:
    """Close a descriptor, if it is one. A medium that is gone says so once more at that, but the
    descriptor is closed all the same."""
    if fd >= 0:
        with contextlib.suppress(OSError):
            os.close(fd)


def _load(
    log: Path, keys: KeyRing | None, secret: bytes | None, *, repair: bool
) -> tuple[list[Segment], TornEnd | None]:
    """Reads the segments from the newest back to the base; repair: and cleans up behind a crash."""
    paths = segment_paths(log)
    segments: list[Segment] = []
    leftovers: list[Path] = []
    torn: TornEnd | None = None
    while paths and not (segments and segments[0].base):
        segment, fault = scan_segment(paths.pop(), keys, secret)
        if segment.void:
            leftovers.append(segment.path)
            continue
        if fault is not None:
            if segments or not (fault.torn or _never_counted(segment, fault, paths)):
                raise LogCorrupt(segment.path, fault.offset, fault.why, segment.last)
            torn = TornEnd(segment.path.name, fault.offset, fault.size, fault.why)
            if fault.offset == 0:
                leftovers.append(segment.path)
                continue
            if repair:
                clear(segment.path, fault.offset)
        if segments and segment.last + 1 != segments[0].first:
            why = f"operations {segment.last + 1} to {segments[0].first - 1} are missing"
            raise LogCorrupt(segment.path, segment.end, why, segment.last)
        segments.insert(0, segment)
    if repair:
        for leftover in [*paths, *leftovers]:
            remove(leftover)
    return segments, torn


def _never_counted(segment: Segment, fault: Fault, older: list[Path]) -> bool:
    """Whether a newest segment without a header is one that a cut had not finished: the segment
    before it has its operations still."""
    return fault.offset == 0 and bool(older) and scan_segment(older[-1])[0].last >= segment.first
