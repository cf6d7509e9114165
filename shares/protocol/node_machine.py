# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The machine of a node: what may be read and written here, what to ask for, what to answer.

It has no content, no clock and no lock. Who acts holds one lock around each call and what belongs
to it: the access and `did_read` or `did_write`; a message from home, its content, and the accesses
that waited for it; a message that carries content (`filled`), and its place in the stream.

An access goes block by block:

    reading block b:  readable(f, b, now)?  copy it out, did_read(f, b, 1, now)
                      else send each of to_read(f, first, count, now), wait until something came
    writing block b:  writable(f, b, now)?  copy it in, send each of did_write(f, b, 1, now)
                      else send each of to_write(f, first, count, whole, now), wait likewise

What waits for a grant is done while the grant is handled, before anything that came after it:
otherwise two nodes that write one block could take it from each other for ever. For the same reason
an access that needs several blocks at a time asks for all of them `together` once it has found
that what came was not enough. With the log
policy `sync`, a write that is not native is between log_sent and log_done.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from math import inf

from shares.protocol.messages import (
    ATTRIBUTES,
    UNCUT,
    Ack,
    Acquire,
    Blocks,
    Engage,
    Fetch,
    FileId,
    Flush,
    Invalidate,
    Message,
    NativeGrant,
    Ownership,
    Push,
    Recall,
    Release,
    Update,
    UpdateReply,
    runs,
)
from shares.protocol.node_answers import engage, invalidate, recall, releases, update
from shares.protocol.node_blocks import Block
from shares.protocol.node_files import FileGrant, NodeFile, made
from shares.protocol.node_requests import copied, copies, failed, given, granted, ownership
from shares.protocol.node_rights import Rights, rights
from shares.protocol.overwrites import Overwrites
from shares.protocol.policies import Decision, PushPolicy

DRIFT = 0.01
"""How differently clocks may run. A relaxed copy is used so much shorter than it might be."""


class NodeMachine:
    """What one node holds. Times are seconds on its clock. Not thread-safe."""

    def __init__(self) -> None:
        self._files: dict[FileId, NodeFile] = {}
        self._leased = inf
        self._heard = -inf
        self._gave = 0
        self._unconfirmed: deque[tuple[int, FileId, int]] = deque()
        """When the policy is asked again about blocks; the earliest is the first."""
        self._asked_to_open = 0
        self._closing: Counter[FileId] = Counter()
        """Of which home has not answered yet that they are closed."""
        self._told: dict[FileId, FileGrant] = {}
        self._overwrites = Overwrites()
        """While files are being opened: what NativeGrant and Engage said of those not known
        here."""

    # Files.

    def expect(self, file: FileId, policy: PushPolicy) -> None:
        """Home is about to be asked to open the file. Of one that is not known here content may be
        asked for before that (`to_read`), and what home says of it counts, but no program has it
        before `open`; `forget` it where home does not open it."""
        if file not in self._files:
            self._files[file] = NodeFile(policy, False, 0.0, expected=True)
            self._files[file].blocks.update(self._overwrites.take(file))

    def make(self, file: FileId, policy: PushPolicy) -> None:
        """This node has made the file by itself, and no other one knows of it: it is native, before
        home has said so. `made` follows when home does, and then `open`."""
        self._files[file] = made(policy)

    def made(self, file: FileId, grant: int) -> None:
        """What was written to it was written under this grant."""
        self._files[file].granted(grant)

    def opening(self) -> None:
        """Home is about to be asked to open a file, or to make one. `opening_over` follows."""
        self._asked_to_open += 1

    @property
    def opens(self) -> bool:
        """Whether home is being asked to open files."""
        return self._asked_to_open > 0

    def opening_over(self) -> None:
        """After `open`, or where home has opened nothing."""
        self._asked_to_open -= 1
        if not self._asked_to_open:
            self._told.clear()

    def overtaken(self, file: FileId, native: bool, grant: int) -> bool:
        """Whether NativeGrant or Engage was handled here that home said after its answer to an
        open."""
        said = FileGrant(grant, not native)
        return self._latest(file, said) != said

    def _latest(self, file: FileId, said: FileGrant) -> FileGrant:
        known = self._files.get(file)
        return max(said, known.told if known is not None else self._told.get(file, said))

    def open(
        self,
        file: FileId,
        policy: PushPolicy,
        native: bool,
        relaxation: float = 0.0,
        grant: int = 0,
    ) -> bool:
        """After home's answer to an open. What the node has of the file already it keeps. The
        content of block -1 comes with the answer; whether it is to be taken. It is where the file
        is native, but not over what is here: that was given to home perhaps after the answer was
        made. What has overtaken the answer counts in its place, and then block -1 has not come."""
        said = FileGrant(grant, not native)
        latest = self._latest(file, said)
        comes = native and latest == said
        grant, ended = latest
        known = self._files.get(file)
        relaxation *= 1 - DRIFT
        if known is None:
            self._files[file] = NodeFile(policy, not ended, relaxation, grant)
            self._files[file].blocks.update(self._overwrites.take(file))
        else:
            known.grant = grant
            known.policy, known.native, known.relaxation = policy, not ended, relaxation
            known.opened, known.expected = True, False
        if not ended:
            self._files[file].forget_old()
        if comes:
            block = self._files[file].blocks[ATTRIBUTES]
            if block.valid:
                return False
            block.valid, block.shared, block.expires = True, False, inf
        return comes

    def close(self, file: FileId) -> None:
        """Before home is told; `closed` follows when it has answered. A native file's blocks stay,
        until Engage; else nothing does, and what was owned has to be released before
        (`give_back`)."""
        self._closing[file] += 1
        known = self._files.get(file)
        if known is not None and known.native:
            known.opened = False
        elif known is not None:
            self._overwrites.keep(file, known.blocks)
            del self._files[file]

    def closed(self, file: FileId) -> None:
        """Home has answered that, and all that it said before has been handled here."""
        self._closing -= Counter({file: 1})

    def keep(self, file: FileId, kept: bool) -> None:
        """No program has the file open, or one has it again. Home is not told: of a native file
        everything stays until Engage, and nothing is named then that home has as well."""
        known = self._files.get(file)
        if known is not None:
            known.opened = not kept

    def forget(self, file: FileId) -> None:
        """The file is no more, or is not opened."""
        self._files.pop(file, None)
        self._overwrites.forget(file)

    def native(self, file: FileId) -> bool:
        known = self._files.get(file)
        return known is not None and known.native

    def native_grant(self, file: FileId) -> int:
        """Under which a native file is written; 0 where home has not made it yet."""
        return self._files[file].grant

    def relaxed(self, file: FileId) -> bool:
        """Whether copies of it may be old."""
        known = self._files.get(file)
        return known is not None and known.relaxation > 0

    def block(self, file: FileId, number: int) -> Block:
        """What is known of a block, for status pages; a copy of nothing where nothing is."""
        known = self._files.get(file)
        return known.blocks.get(number, Block()) if known else Block()

    def behind(self, file: FileId, now: float) -> tuple[int, float]:
        """How many blocks were written since home was given them, and since how many seconds."""
        written = sum(number >= 0 for number in self._dirty(file))
        return written, now - self._files[file].since if written else 0.0

    def asking(self, file: FileId) -> bool:
        """Whether a request about blocks of the file is under way."""
        known = self._files.get(file)
        return any(b.fetching or b.owning for b in known.blocks.values()) if known else False

    def files(self) -> Iterable[FileId]:
        return tuple(self._files)

    def numbers(self, file: FileId) -> Iterable[int]:
        """Of the blocks of which anything is known."""
        known = self._files.get(file)
        return tuple(known.blocks) if known else ()

    # The lease.

    def leased(self, until: float) -> None:
        """Home has answered a heartbeat. until: when that heartbeat was sent, plus the lease."""
        self._leased = until

    def heard(self, sent: float) -> None:
        """Home has answered what was sent then, and all that it said before the answer has been
        handled here. So copies that are not invalidated were the latest at that time."""
        self._heard = max(self._heard, sent)

    def mark(self) -> int:
        """When a heartbeat is sent: what was given to home until now."""
        return self._gave

    def confirmed(self, mark: int) -> None:
        """When its answer is there: home has had all of that, because connections are FIFO."""
        while self._unconfirmed and self._unconfirmed[0][0] <= mark:
            number, file, place = self._unconfirmed.popleft()
            block = self._files[file].blocks.get(place) if file in self._files else None
            if block is not None and block.given == number:
                block.given = 0

    def arrived(self, file: FileId, number: int) -> None:
        """Home has answered the Push, Flush or Release of this block that was sent last."""
        known = self._files.get(file)
        if known is not None and number in known.blocks:
            known.blocks[number].given = 0

    def gives(self, file: FileId) -> bool:
        """Whether home has perhaps not got what it was given; closed now, nobody would bring it."""
        return any(self.block(file, number).given for number in self.numbers(file))

    def needed(self, file: FileId, number: int) -> bool:
        """Whether the content of the block has to stay in the buffer: nobody else may have it."""
        block = self.block(file, number)
        asked = block.fetching + block.owning > 0
        return block.valid or block.dirty or block.given > 0 or asked

    def trim(self, file: FileId) -> int:
        """The block behind the last one whose content has to stay in the buffer. Content from there
        on is about to be dropped, so home is to be told of no version of it."""
        known = self._files.get(file)
        end = 1 + max((n for n in self.numbers(file) if self.needed(file, n)), default=-1)
        for number, block in known.blocks.items() if known is not None else ():
            if number >= end:
                block.version = 0
        return end

    # Accesses.

    def readable(self, file: FileId, number: int, now: float, since: float = inf) -> bool:
        """Return whether the block can be read. since: when the access began. A copy that was young
        enough then is usable, even if its way took longer than the relaxation."""
        known = self._files.get(file)
        block = known.blocks.get(number) if known else None
        if block is None or not block.valid or block.logging or block.hollow:
            return False
        assert known is not None
        if known.relaxation and block.shared:
            return min(now, since) < min(block.expires, self._heard + known.relaxation)
        return now < self._leased

    def writable(self, file: FileId, number: int, now: float, whole: bool = False) -> bool:
        """whole: every byte of the block is going to be overwritten."""
        known = self._files.get(file)
        if known is None or now >= self._leased:
            return False
        block = known.blocks.get(number)
        if known.native:
            return whole or (block is not None and block.valid)
        return block is not None and block.owned

    def to_read(
        self, file: FileId, first: int, count: int, now: float, *, together: bool = False
    ) -> list[Fetch]:
        """What to ask for so that these blocks can be read. Nothing, where all of them can be, or
        are on their way already. together: ask for all of them, so that all are here when the
        reply is. Raises KeyError for a file that is not open."""
        run = range(first, first + count)
        lacking = [n for n in run if together or not self.readable(file, n, now)]
        return copies(file, self._files[file], lacking, together=together)

    def to_write(
        self,
        file: FileId,
        first: int,
        count: int,
        whole: range,
        now: float,
        *,
        together: bool = False,
    ) -> list[Fetch | Acquire]:
        """What to ask for so that these blocks can be written. whole: numbers of those of which
        every byte is going to be. together: as for `to_read`. Raises KeyError for a file that is
        not open."""
        known = self._files[file]
        if known.native:
            partial = [n for n in range(first, first + count) if n not in whole]
            return [ask for n in partial for ask in self.to_read(file, n, 1, now)]
        return ownership(file, known, range(first, first + count), whole, together=together)

    def did_read(self, file: FileId, first: int, count: int) -> None:
        """A program has read these blocks here."""
        blocks = self._files[file].blocks
        for number in range(first, first + count):
            blocks[number].used = True
            blocks[number].unread = 0

    def did_write(
        self, file: FileId, first: int, count: int, now: float, times: int = 1
    ) -> list[Push]:
        """A program has written these blocks here, so often, which were writable; 0 times where
        that was counted before. The pushes that the policy wants; to the machine they are done, so
        they must be filled and sent at once."""
        known = self._files[file]
        known.since = min(known.since, now)
        found: dict[Decision, list[int]] = defaultdict(list)
        for number in range(first, first + count):
            block = known.blocks[number]
            block.valid = block.dirty = block.mine = block.used = True
            block.hollow = False
            block.expires = inf
            if known.native and block.shared:
                block.overwritten, block.untouched = 0, True
            block.overwritten += times - block.untouched
            block.untouched = False
            if known.native:
                block.shared, block.grant = False, known.grant
                continue
            # A reply that is on its way would replace what was pushed by what home had before.
            if known.pushable(block) and not (known.held and number == ATTRIBUTES):
                found[known.policy.wrote(file, number, block, now)].append(number)
        return self._pushes(file, found)

    def hold(self, file: FileId, held: bool) -> None:
        """An access holds block -1, or does so no more: it is not pushed meanwhile."""
        if file in self._files:
            self._files[file].held = held

    def rights(self, file: FileId, numbers: Iterable[int], now: float) -> list[Rights]:
        """What may be done with these blocks, ascending numbers, until `until`."""
        known = self._files.get(file)
        if known is None or now >= self.until(file):
            return []
        about = (known.policy, known.native, known.relaxation > 0)
        return rights(file, known.blocks, numbers, *about)

    def until(self, file: FileId) -> float:
        """When rights to a file end, unless home is heard of before."""
        known = self._files.get(file)
        relaxation = known.relaxation if known else 0
        return min(self._leased, self._heard + relaxation) if relaxation else self._leased

    def _pushes(self, file: FileId, found: dict[Decision, list[int]]) -> list[Push]:
        pushes = []
        for decision in (Decision.PUSH, Decision.PUSH_TO_EVERYONE):
            everyone = decision is Decision.PUSH_TO_EVERYONE
            for start, length in runs(sorted(found[decision])):
                pushes.append(self._push(file, start, length, everyone))
        return pushes

    def _push(self, file: FileId, first: int, count: int, everyone: bool) -> Push:
        for number in range(first, first + count):
            self._given(file, number)
            block = self._files[file].blocks[number]
            block.shared = True
            block.pushed = True
        fresh = tuple(range(first, first + count))
        return Push(file, first, count, fresh, everyone=everyone)

    def _given(self, file: FileId, number: int) -> None:
        """Home is going to have what was written to the block."""
        block = self._files[file].blocks[number]
        if not block.dirty:
            return
        self._gave += 1
        block.given = self._gave
        self._unconfirmed.append((self._gave, file, number))
        block.dirty = False
        if block.version:
            block.version += 1

    # Replies.

    def blocks(self, request: Fetch, reply: Blocks, sent: float) -> list[int]:
        """Copies came. sent: when the request was sent. The numbers of the blocks whose content is
        to be stored: not of those that were written here since, when the file became native."""
        known = self._files.get(request.file)
        self.heard(sent)
        return copied(known, reply, sent) if known else []

    def granted(self, request: Acquire, reply: Ownership, now: float) -> list[int]:
        """This node is the owner. What waits for it is to be written now, and then `unwritten` is
        to be called. The numbers as those of `blocks`."""
        known = self._files.get(request.file)
        return granted(known, request, reply, now) if known else []

    def unwritten(self, request: Fetch | Acquire) -> list[Release]:
        """After a reply, when what waited for it is done: of blocks that were granted without
        content and that nobody has written then, the node has none, and gives them up. To be sent
        at once; what waits is to look again then."""
        empty = [n for n in request.numbers if self.block(request.file, n).hollow]
        return [
            release
            for first, count in runs(empty)
            for release in self.release(request.file, first, count)
        ]

    def unstored(self, request: Fetch | Acquire, numbers: Iterable[int]) -> None:
        """Content that came with the reply is not to be had here after all. numbers: as `blocks` or
        `granted` gave them. `unwritten` follows, for what is owned now."""
        known = self._files.get(request.file)
        for block in [known.blocks[number] for number in numbers] if known is not None else ():
            block.version = 0
            if block.owned:
                block.hollow = True
            else:
                block.valid = False

    def failed(self, request: Fetch | Acquire) -> None:
        """The request will not be answered: home refused it, or the connection is gone."""
        known = self._files.get(request.file)
        if known is not None:
            failed(known, request)

    def lose(self, file: FileId, numbers: Iterable[int]) -> set[int]:
        """Of an Update or a Ownership that `answer` took, content that is not to be had here after
        all. The numbers of those to be declined: the others are on their way once more, and home
        counts on their being here."""
        lost = [(number, self._files[file].blocks[number]) for number in numbers]
        for _, block in lost:
            block.valid, block.shared, block.version = False, True, 0
        return {number for number, block in lost if not (block.fetching or block.owning)}

    def log_sent(self, file: FileId, number: int) -> None:
        """Until log_done nobody reads the block here: it may be lost with this node."""
        self._files[file].blocks[number].logging += 1

    def log_done(self, file: FileId, number: int) -> None:
        known = self._files.get(file)
        if known is not None and known.blocks[number].logging:
            known.blocks[number].logging -= 1

    # What home asks.

    def answer(self, message: Message, now: float) -> Message:
        """The reply to Invalidate, Recall, Update, Ownership, Engage, NativeGrant; `ahead` comes
        first. A RecallReply is to be filled. Of an Update or an Ownership, the content of the
        blocks that are kept is to be stored."""
        if isinstance(message, Invalidate):
            return invalidate(self._files.get(message.file), message, self._heard)
        if isinstance(message, Recall):
            known = self._files.get(message.file)
            return recall(known, message, now, self._leased, self._heard, self._given)
        if isinstance(message, Update):
            return update(self._files.get(message.file), message)
        if isinstance(message, Ownership):
            return self._given_unasked(message, now)
        if isinstance(message, Engage | NativeGrant):
            return self._told_of_all(message)
        raise ValueError(f"home asks {type(message).__name__}")

    def _given_unasked(self, message: Ownership, now: float) -> UpdateReply:
        known = self._files.get(message.file)
        takes = known is not None and not known.native
        # It was said, perhaps, before home heard that the file was closed: then it counts no more.
        late = known is not None and known.expected and message.file in self._closing
        takes = takes and not late
        if known is not None and takes:
            given(known, message, now)
        return UpdateReply(message.file, message.first, message.count, (takes,) * message.count)

    def _told_of_all(self, message: Engage | NativeGrant) -> Message:
        """Of a file that is not known here, the answer to an open is perhaps still to come."""
        file, known = message.file, self._files.get(message.file)
        if known is None and self._asked_to_open:
            self._told[file] = FileGrant(message.grant, isinstance(message, Engage))
        if isinstance(message, Engage):
            return engage(known, message)
        if known is not None:
            known.forget_old()
            known.native, known.grant = True, message.grant
        return Ack(file, message.first, message.count)

    def ahead(self, message: Message, now: float) -> list[Flush]:
        """What goes ahead of the answer to this, to be filled and sent before `answer` is called:
        of a native file that another node opens, the written blocks that the policy wants at home.
        The node keeps copies of them."""
        known = self._files.get(message.file)
        opened = isinstance(message, Engage) and message.cut == UNCUT
        if known is None or not known.native or not opened:
            return []
        engaged, blocks = known.policy.engaged, known.blocks
        dirty = self._dirty(message.file)
        wanted = [n for n in dirty if engaged(message.file, n, blocks[n], now)]
        return self._flushes(message.file, wanted)

    # Giving back.

    def flush(self, file: FileId, limit: int | None = None) -> list[Flush]:
        """What home has to have for a sync, `limit` blocks at most. To be filled, sent at once."""
        written = self._dirty(file)
        sized = written[:1] == [ATTRIBUTES]
        wanted = (written[sized:] + written[:sized])[:limit]
        if written and len(wanted) == len(written):
            self._files[file].since = inf
        return self._flushes(file, sorted(wanted))

    def flush_from(self, file: FileId, first: int) -> list[Flush]:
        """Return the blocks from this one on that home lacks. To be filled, sent at once."""
        return self._flushes(file, [n for n in self._dirty(file) if n >= first])

    def _flushes(self, file: FileId, numbers: list[int]) -> list[Flush]:
        """Return the content first: its size must not cover bytes that never come."""
        for number in numbers:
            self._given(file, number)
        found = runs(numbers)
        if len(found) > 1 and found[0][0] == ATTRIBUTES:
            found = [*runs([n for n in numbers if n != ATTRIBUTES]), (ATTRIBUTES, 1)]
        return [Flush(file, first, n, tuple(range(first, first + n))) for first, n in found]

    def release(self, file: FileId, first: int, count: int) -> list[Release]:
        """Blocks that leave the buffer: owned ones need a message, to be filled and sent at once,
        copies none. Blocks that a request is under way for stay; `block(...).valid` tells."""
        known = self._files.get(file)
        going = []
        for number in range(first, first + count):
            block = known.blocks.get(number) if known else None
            if known is None or block is None or block.fetching or block.owning:
                continue
            if block.owned and (block.dirty or not known.native):
                going.append((number, block.dirty))
                self._given(file, number)
            block.valid, block.shared, block.version, block.hollow = False, True, 0, False
        if known is None:
            return []
        found = [r for written in (True, False) for r in releases(file, known, going, written)]
        for number in [n for n in range(first, first + count) if n in known.blocks]:
            if known.blocks[number].blank:
                del known.blocks[number]
        return found

    def give_back(self, file: FileId) -> list[Release]:
        """Everything that is owned of a file, before it is closed. No request about the file may be
        under way. Close it when all of these are answered: until then they may have to be sent
        again (`reset`)."""
        owned = [n for n in self.numbers(file) if self.block(file, n).owned]
        return [r for first, count in runs(sorted(owned)) for r in self.release(file, first, count)]

    def _dirty(self, file: FileId) -> list[int]:
        known = self._files.get(file)
        return known.dirty if known else []

    def reset(self) -> list[Release]:
        """The connection was lost, and there is a new one: what was written here and home may not
        have, to be filled and sent before anything else is asked. Nothing is valid after that;
        plain copies keep their versions, so that asking for them again costs little. No file is
        native, and home has to be told again which ones are open. What home refuses of it, others
        have written over meanwhile."""
        found: list[Release] = []
        self._told.clear()
        self._closing.clear()
        self._overwrites.reset()
        for file, known in self._files.items():
            known.native, known.grant = False, 0  # the next home counts on, or anew
            written = []
            for number, block in sorted(known.blocks.items()):
                if block.dirty or block.given:
                    written.append(number)
                    block.dirty = True
                    self._given(file, number)
                block.valid, block.shared, block.pushed = False, True, False
                block.hollow = False
                block.fetching = block.owning = block.logging = 0
                if block.mine:
                    block.version = 0
            found += releases(file, known, [(number, True) for number in written], True)
        return found
