# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's machine: who owns and who shares which block, and who has to be asked before a request can
be answered.

It has no content, no clock and no lock. Who acts holds one lock around each call and the actions
that it returns, and does these in their order; `Ask` and `Reply` to one node go into one stream.

Requests for the same blocks are taken up one after the other, in the order in which they came. What
a request needs is found from the state of its blocks, asked for, and when all answers are there
found again; when nothing is needed any more it is answered. Content that an owner gives (Push,
Flush, Release, RecallReply) is taken at once, because it is the latest whatever else is going on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from shares.protocol import home_transitions
from shares.protocol.home_actions import (
    Action,
    Append,
    Ask,
    FinishOpen,
    FinishReclaim,
    Replay,
    Reply,
    StoreContent,
    Token,
)
from shares.protocol.home_questions import (
    awaits_engaged,
    check,
    claims,
    needed,
    outdated,
    part,
    reads_clean,
)
from shares.protocol.home_records import (
    NOBODY,
    BlockRecord,
    FileRecord,
    OpenRequest,
    ReclaimRequest,
    Request,
)
from shares.protocol.messages import (
    ATTRIBUTES,
    HOME,
    UNCUT,
    Ack,
    Acquire,
    Blocks,
    Engage,
    EngageReply,
    Fetch,
    FileId,
    Flush,
    Invalidate,
    InvalidateReply,
    Keep,
    LogWrite,
    Message,
    NativeGrant,
    NodeId,
    Ownership,
    Push,
    Recall,
    RecallReply,
    RefusalReply,
    Release,
    Update,
    UpdateReply,
    runs,
)

GIVEN = 4
"""Blocks that who has had a file cut is going to write next, perhaps; each is 21 bytes on the wire.
With 8 or 16 the traces of papers/ofs wait no less."""

RESTING = 4096
"""Files that nodes had alone and have closed, and whose content is kept there for the next open.
Of more the one that was closed first is asked back: home remembers each."""


@dataclass(slots=True)
class _Question:
    node: NodeId
    message: Message
    request: Request | None


class HomeMachine:
    """The directory of one share. Times are seconds on home's clock. Not thread-safe.

    base: the version of blocks that nobody has asked for yet; greater than any version that an
    earlier directory of the share has given, so that a node which outlived it is not misled
    """

    def __init__(self, base: int = 1) -> None:
        self._base = base
        self._files: dict[FileId, FileRecord] = {}
        self._asks: dict[int, _Question] = {}
        self._asked = 0
        self._grants = base
        self._resting: OrderedDict[FileId, None] = OrderedDict()  # perhaps: that is looked up

    # What nodes ask.

    def request(self, node: NodeId, message: Message, token: Token, now: float) -> list[Action]:
        """A node's request. Raises ValueError for what a node cannot ask; nothing is changed."""
        check(message)
        if isinstance(message, Fetch | Acquire):
            if len(message.versions) != message.count:
                raise ValueError(f"{len(message.versions)} versions of {message.count} blocks")
            end = message.first + message.count
            wanted = Request(node, token, message.file, message.first, end, message)
            return self._queue(wanted, now)
        if isinstance(message, Push | Flush | Release):
            return self._given(node, message, token, now)
        if isinstance(message, LogWrite):
            return self._log(node, message, token)
        raise ValueError(f"a node asks {type(message).__name__}")

    def open(
        self,
        node: NodeId,
        file: FileId,
        token: Token,
        now: float,
        relaxation: float = 0.0,
        *,
        cut: bool = False,
        writes: bool = True,
    ) -> list[Action]:
        """A node opens a file; `FinishOpen` comes when nobody else has it natively and may have
        written it. cut: home has just made the file empty for that, and the node expects to be
        given its beginning. writes: its programs may write it from now on, until it has `written`
        it."""
        known = self._file(file)
        known.relaxation = relaxation
        if writes:
            known.writing.add(node)
        return self._queue(Request(node, token, file, -1, inf, OpenRequest(cut)), now)

    def written(self, node: NodeId, file: FileId) -> None:
        """Its programs write it no more, and home has been given all that they wrote natively."""
        known = self._files.get(file)
        if known is not None:
            known.writing.discard(node)

    def close(self, node: NodeId, file: FileId, now: float) -> list[Action]:
        """A node has closed a file. It has no copies of it any more, unless it is native there."""
        known = self._files.get(file)
        if known is None:
            return []
        known.open.discard(node)
        known.writing.discard(node)
        if known.native != node:
            known.drop(node)
        else:
            self._resting[file] = None
            self._resting.move_to_end(file)
        # What is still said to updates of before may come when the node has got others.
        for number, asked in list(self._asks.items()):
            about = (asked.node, asked.message.file)
            if about == (node, file) and isinstance(asked.message, Update | Ownership):
                del self._asks[number]
        actions = self._alone(known, file, now)
        self._tidy(file)
        return actions + self._surplus(now)

    def _surplus(self, now: float) -> list[Action]:
        """Ask back what has rested for the longest time, if too much does."""
        actions: list[Action] = []
        while len(self._resting) > RESTING:
            file, _ = self._resting.popitem(last=False)
            known = self._files.get(file)
            if known is not None and known.rests:
                actions.append(self._ask_back(known, file, UNCUT, now))
        return actions

    def _ask_back(self, known: FileRecord, file: FileId, cut: int, now: float) -> Action:
        """Who has it natively says what it has, and those that read need not wait for that."""
        engage = Engage(file, 0, 0, cut, known.grant)
        return self._ask(known.engage(), engage, None, now)

    def _go_on(self, known: FileRecord, now: float) -> list[Action]:
        """Nobody is engaging any more: what has waited for that."""
        waiting = [each for each in known.queue if each.started and not (each.asks or each.taken)]
        actions = [action for each in waiting for action in self._advance(known, each, now)]
        return actions + self._next(known, now)

    def _engaged(
        self, known: FileRecord, node: NodeId, message: EngageReply, now: float
    ) -> list[Action]:
        waited_for = known.engaging != node
        home_transitions.engaged(known, node, message)
        if waited_for:
            return []
        return [*self._go_on(known, now), *self._alone(known, message.file, now)]

    def _alone(self, known: FileRecord, file: FileId, now: float) -> list[Action]:
        """The file is native again, where one node has it open and nobody waits for any of it."""
        if known.native is None and len(known.open) == 1:
            (only,) = known.open
            if known.alone(only) and not known.queue:
                self._make_native(known, only)
                return [self._ask(only, NativeGrant(file, 0, 0, known.grant), None, now)]
        return []

    def take(
        self,
        file: FileId,
        token: Token,
        now: float,
        first: int = UNCUT,
        discard: int = UNCUT,
        by: NodeId = HOME,
        end: float = inf,
        kept: float = inf,
    ) -> list[Action]:
        """Home is going to change block -1, and those from `first` to before `end`, by itself:
        nobody has any of them when `FinishReclaim` comes. discard, kept: from this number to before
        that one the owners' content is not wanted. by: the node that wants that; where there is no
        end, it is going to write there next."""
        wants = ReclaimRequest(first, discard, by, end, kept)
        return self._queue(Request(HOME, token, file, ATTRIBUTES, wants.behind, wants), now)

    def gave(self, file: FileId, token: Token, now: float) -> list[Action]:
        """Home has changed the blocks that it took."""
        known = self._file(file)
        wants = ReclaimRequest(UNCUT, UNCUT)
        for request in list(known.queue):
            if (
                request.token == token
                and isinstance(request.wants, ReclaimRequest)
                and request.taken
            ):
                known.queue.remove(request)
                wants = request.wants
                known.changed(wants, self._grant())
        # Blocks that nobody has asked for yet were changed as well.
        known.base += 1
        actions = [*self._next(known, now), *self._alone(known, file, now)]
        if wants.by in known.open and wants.first < UNCUT and wants.end == inf:
            actions += self._give(known, file, wants.by, wants.first, now)
        self._tidy(file)
        return actions

    def _give(
        self,
        known: FileRecord,
        file: FileId,
        node: NodeId,
        cut: int,
        now: float,
        opening: Request | None = None,
    ) -> list[Action]:
        """Who has had a file cut in that block gets block -1, that block and some behind it to
        write, without asking for them; not what somebody has, or waits for. opening: what the node
        waits for itself."""
        if known.native is not None or known.engaging is not None:
            return []
        actions: list[Action] = []
        numbers = (ATTRIBUTES, *range(cut, cut + GIVEN))
        for first, count in runs([n for n in numbers if known.free(n, node, opening)]):
            wanted = Acquire(file, first, count, (0,) * count)
            for number in wanted.numbers:
                known.record(number).readers = NOBODY  # as of who asks for it after the cut
            actions.append(self._ask(node, self._granted(known, node, wanted), None, now))
        return actions

    def forget(self, file: FileId, now: float) -> list[Action]:
        """The file is no more. Requests for it that wait are answered as ever: who waits for one
        finds out then. The node that closed it natively is told."""
        known = self._files.get(file)
        if known is None:
            return []
        known.over = True
        actions: list[Action] = []
        if known.rests:
            actions.append(self._ask_back(known, file, 0, now))
        self._tidy(file)
        return actions

    def _tidy(self, file: FileId) -> None:
        """What is known of a file that is no more, or of which no node has anything, stays while
        there are requests for it. Versions and grants of a later record are greater than its."""
        known = self._files.get(file)
        if known is None or known.queue or not (known.over or known.idle):
            return
        self._base = max(self._base, known.newest) + 1
        del self._files[file]

    # What nodes answer.

    def answer(self, node: NodeId, number: int, message: Message, now: float) -> list[Action]:
        """A node's reply to an `Ask`. Raises ValueError for one that does not fit; then nothing is
        changed, and the node had better be `lost`."""
        asked = self._asks.get(number)
        if asked is None or asked.node != node:
            return []
        check(message)
        about = asked.message
        if (message.file, message.first, message.count) != (about.file, about.first, about.count):
            raise ValueError("the reply is about other blocks than the question")
        known = self._files.get(about.file)
        actions: list[Action] = []
        if known is None:
            return self._settle([number], now)
        if isinstance(about, Invalidate) and isinstance(message, InvalidateReply):
            # Since it was told that its copy grows old, the node may have got another one.
            if about.keep is Keep.NOTHING:
                home_transitions.invalidated(known, node, message)
            else:
                home_transitions.used_late(known, message)
        elif isinstance(about, Recall) and isinstance(message, RecallReply):
            actions += home_transitions.recalled(known, node, about, asked.request, message)
        elif isinstance(about, Update | Ownership) and isinstance(message, UpdateReply):
            home_transitions.updated(known, node, about, message)
        elif isinstance(about, Engage) and isinstance(message, EngageReply):
            actions += self._engaged(known, node, message, now)
        elif not (isinstance(about, NativeGrant) and isinstance(message, Ack)):
            got, to = type(message).__name__, type(about).__name__
            raise ValueError(f"{got} in reply to {to}")  # noqa: TRY004
        actions += self._settle([number], now)
        self._tidy(about.file)
        return actions

    # Nodes that come and go.

    def lost(self, node: NodeId, now: float, *, left: bool = False) -> list[Action]:
        """The node's lease is over, and it has stopped by itself to use what it had. Home goes on
        with what it has and what the log says. What the node sent before must not come after this,
        unless it joins again; left: it does not."""
        engaging = {file for file, known in self._files.items() if known.engaging == node}
        found = [(file, known.lose(node, left)) for file, known in self._files.items()]
        actions: list[Action] = [Replay(file, numbers) for file, numbers in found if numbers != ()]
        over = [number for number, asked in self._asks.items() if asked.node == node]
        actions += self._settle(over, now)
        for file, known in list(self._files.items()):
            actions += (self._go_on if file in engaging else self._next)(known, now)
            self._tidy(file)
        return actions

    # For status pages.

    def knows(self, file: FileId) -> bool:
        """Whether anything is known of the file."""
        return file in self._files

    def record(self, file: FileId, number: int) -> BlockRecord | None:
        known = self._files.get(file)
        return known.blocks.get(number) if known else None

    def owners(self, file: FileId) -> dict[int, NodeId]:
        """The blocks of a file that nodes own."""
        known = self._files.get(file)
        blocks = known.blocks.items() if known else ()
        return {number: each.owner for number, each in blocks if each.owner != HOME}

    def files(self) -> Iterable[FileId]:
        return tuple(self._files)

    def granted(self, file: FileId, number: int, node: NodeId) -> int:
        """Under which right the node had written what it has just given of the block, or logged;
        of what others may write by now, a later one. Of home's own changes, the node being HOME,
        their number. Of what nothing is known of any more, one that is later than all before."""
        known = self._files.get(file)
        if known is None:
            return self._grant()
        record = known.blocks.get(number)
        if record is not None and record.owner == node != HOME:
            return record.grant
        return max(known.grant, record.grant if record else 0)

    def native(self, file: FileId) -> NodeId | None:
        known = self._files.get(file)
        return known.native if known else None

    def waiting(self) -> Iterable[tuple[NodeId, Message]]:
        """Who has been asked what and has not answered."""
        return tuple((asked.node, asked.message) for asked in self._asks.values())

    # The queue.

    def _file(self, file: FileId) -> FileRecord:
        known = self._files.get(file)
        if known is None:
            known = self._files[file] = FileRecord(self._base, grant=self._grant())
        return known

    def _queue(self, request: Request, now: float) -> list[Action]:
        known = self._file(request.file)
        known.queue.append(request)
        actions = self._next(known, now)
        if not (request.started or known.contended) and self._asked_size(request):
            known.contended = True
            actions += self._next(known, now)
        return actions

    def _asked_size(self, request: Request) -> bool:
        """Return whether its node has yet to answer a question about block -1. It may keep that
        block until this request is answered."""
        return any(
            (asked.node, asked.message.file) == (request.node, request.file)
            and ATTRIBUTES in asked.message.numbers
            for asked in self._asks.values()
        )

    def _next(self, known: FileRecord, now: float) -> list[Action]:
        """Takes up every request that no earlier one is in the way of."""
        actions: list[Action] = []
        for request in list(known.queue):
            if request.started:
                continue
            known.reserve(request)
            if known.may_start(request):
                request.started = True
                if reads_clean(known, request):
                    actions.append(self._ask_back(known, request.file, UNCUT, now))
                elif known.native not in {None, request.node}:
                    # What the native node asks from here on waits until it has answered Engage:
                    # granted before that, it would be taken for nothing but a copy after it.
                    request.first, request.end = ATTRIBUTES, inf
                if isinstance(request.wants, Acquire):
                    for number in request.wants.numbers:
                        record = known.record(number)
                        if record.owner != request.node:
                            record.readers = NOBODY
                actions += self._advance(known, request, now)
        return actions

    def _advance(self, known: FileRecord, request: Request, now: float) -> list[Action]:
        """Asks for what the request needs; answers it, where that is nothing."""
        if request.alive and awaits_engaged(known, request):
            return []
        if known.native in {None, request.node}:
            request.narrow()
        questions = needed(known, request) if request.alive else []
        if questions:
            return [self._ask(node, message, request, now) for node, message in questions]
        if request.alive and request.widen():
            return self._next(known, now)
        actions = self._finish(known, request, now) if request.alive else []
        if not request.taken:
            known.queue.remove(request)
        self._tidy(request.file)
        return actions

    def _ask(self, node: NodeId, message: Message, request: Request | None, now: float) -> Action:
        self._asked += 1
        self._asks[self._asked] = _Question(node, message, request)
        if request is not None:
            request.asks.add(self._asked)
        return Ask(node, self._asked, message)

    def _settle(self, numbers: list[int], now: float) -> list[Action]:
        """These questions are over, answered or not."""
        actions: list[Action] = []
        for number in numbers:
            asked = self._asks.pop(number)
            request = asked.request
            if request is None:
                continue
            request.asks.discard(number)
            known = self._files.get(request.file)
            if known is not None and not request.asks and request in known.queue:
                actions += self._advance(known, request, now)
                actions += self._next(known, now)
        return actions

    # The end of a request.

    def _finish(self, known: FileRecord, request: Request, now: float) -> list[Action]:
        wants = request.wants
        ahead: list[Action] = []
        if isinstance(wants, Fetch):
            message: Message = self._fetched(known, request, wants)
        elif isinstance(wants, Acquire):
            ahead = self._outdated(known, request.node, wants.file, wants.numbers, now)
            message = self._granted(known, request.node, wants)
        elif isinstance(wants, OpenRequest):
            return self._opened(known, request, now)
        else:
            request.taken = True
            taken = sorted(number for number in known.blocks if wants.takes(number))
            ahead = self._outdated(known, wants.by, request.file, taken, now)
            return [*ahead, FinishReclaim(request.token, request.file)]
        return [*ahead, Reply(request.node, request.token, message)]

    def _outdated(
        self, known: FileRecord, node: NodeId, file: FileId, numbers: Iterable[int], now: float
    ) -> list[Action]:
        found = outdated(known, node, file, numbers)
        return [self._ask(sharer, message, None, now) for sharer, message in found]

    def _fetched(self, known: FileRecord, request: Request, wants: Fetch) -> Blocks:
        node = request.node
        versions, fresh, lent = [], [], []
        for number, had in zip(wants.numbers, wants.versions, strict=True):
            # Of a native file's blocks there is nothing to know but that they were never changed.
            record = known.look(number) if known.native == node else known.record(number)
            self._shown(record)
            versions.append(record.version)
            if had != record.version:
                # A node that became the owner after it asked makes nothing of it.
                fresh.append(number)
            lent.append(number in request.lent and record.owner not in {HOME, node})
            if known.native is None and record.owner != node and not lent[-1]:
                record.sharers |= {node}
            if record.pusher not in {None, node}:
                record.used = True
        about = (wants.file, wants.first, wants.count)
        return Blocks(*about, tuple(fresh), versions=tuple(versions), lent=tuple(lent))

    def _shown(self, record: BlockRecord) -> None:
        """A node gets to see the block: what a lost owner may still have would come too late."""
        if record.seized:
            record.seized = False
            record.granted(self._grant())

    def _granted(self, known: FileRecord, node: NodeId, wants: Acquire) -> Ownership:
        versions, fresh, shared, used = [], [], [], []
        grant = known.grant if known.native is not None else self._grant()
        for number, had in zip(wants.numbers, wants.versions, strict=True):
            record = known.record(number)
            versions.append(record.version)
            if had != record.version and number not in wants.whole:
                fresh.append(number)
            shared.append(bool(record.readers - {node}))
            late = bool(known.relaxation) and record.used_before
            used.append(record.used or late or record.pusher != node)
            record.pusher, record.used, record.seized = None, False, False
            if known.native is None:
                record.own(node, grant)
        return Ownership(
            wants.file,
            wants.first,
            wants.count,
            tuple(fresh),
            versions=tuple(versions),
            shared=tuple(shared),
            used=tuple(used),
            grant=grant,
        )

    def _grant(self) -> int:
        self._grants += 1
        return self._grants

    def _opened(self, known: FileRecord, request: Request, now: float) -> list[Action]:
        node = request.node
        again = node in known.open
        known.open.add(node)
        if known.native is None and known.open == {node} and known.alone(node):
            self._make_native(known, node)
        native = known.native == node
        opened = FinishOpen(node, request.token, request.file, native, known.grant)
        if native or again:
            return [opened]
        if isinstance(request.wants, OpenRequest) and request.wants.cut:
            return [*self._give(known, request.file, node, 0, now, request), opened]
        return [*self._ahead(known, request, now), opened]

    def _ahead(self, known: FileRecord, request: Request, now: float) -> list[Action]:
        """Who has asked for content ahead of its open gets block -1 ahead of the answer, in which a
        native file's user has it: its first read waits for nothing. Not where a node owns it."""
        node, record = request.node, known.record(ATTRIBUTES)
        has = any(node in each.sharers for each in known.blocks.values())
        if not has or record.owner != HOME or node in record.sharers:
            return []
        self._shown(record)
        record.sharers |= {node}
        return [self._ask(node, known.update(request.file, ATTRIBUTES, 1), None, now)]

    def _make_native(self, known: FileRecord, node: NodeId) -> None:
        known.native, known.seized, known.brings = node, False, False
        known.grant = known.native_grant = self._grant()
        for record in known.blocks.values():
            record.sharers = record.readers = NOBODY
            record.seized = False

    # Content.

    def _given(
        self, node: NodeId, message: Push | Flush | Release, token: Token, now: float
    ) -> list[Action]:
        """Content of the owner's. It is the latest, or the node was taken for lost: of what nothing
        is known, nothing is after that, unless it is taken."""
        known = self._files.get(message.file, FileRecord(self._base))
        taken, refused = claims(known, node, message)
        for number in taken:
            record = known.record(number)
            if number in message.fresh:
                record.version += 1
                record.known = now
                later = isinstance(message, Release) and message.grant == known.grant
                if known.native == node and (later or record.owner == HOME):
                    record.granted(known.grant)
            if record.owner == node and not isinstance(message, Flush):
                if isinstance(message, Push):
                    record.pusher, record.used, record.sharers = node, False, frozenset({node})
                record.owner = HOME
        actions: list[Action] = []
        fresh = tuple(number for number in taken if number in message.fresh)
        if fresh:
            self._files[message.file] = known
            actions.append(StoreContent(node, part(message, fresh)))
        if isinstance(message, Push) and known.native is None:
            actions += self._updates(known, node, message, now)
        about = (message.file, message.first, message.count)
        done = RefusalReply(*about, tuple(refused)) if refused else Ack(*about)
        return [*actions, Reply(node, token, done)]

    def _updates(self, known: FileRecord, node: NodeId, message: Push, now: float) -> list[Action]:
        return [
            self._ask(reader, known.update(message.file, first, count), None, now)
            for reader, numbers in known.pushed(node, message.numbers, message.everyone).items()
            for first, count in runs(numbers)
        ]

    def _log(self, node: NodeId, message: LogWrite, token: Token) -> list[Action]:
        known = self._files.get(message.file)
        about = (message.file, message.first, message.count)
        record = known.blocks.get(message.first) if known else None
        native = known is not None and known.native == node
        if native or (record is not None and record.owner == node):
            return [Append(node, message, token), Reply(node, token, Ack(*about))]
        return [Reply(node, token, RefusalReply(*about, (message.first,)))]
