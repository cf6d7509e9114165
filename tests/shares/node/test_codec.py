# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What nodes and home say, as bytes; and what is refused of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkstore import compress
from satchel.errors import IntegrityError
from shares.node import (
    BLOCK,
    EVERYTHING,
    Attributes,
    DirEntry,
    Extent,
    HomeLink,
    Hub,
    LockKind,
    NewEntry,
    Notices,
    OpenReply,
    OwnFolder,
    PendingCreate,
    RemovedEntry,
    codec,
)
from shares.protocol import (
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
)

FILE = FileId(7)
CONTENT = bytes(range(256)) * 16
ZEROS, SHORT, TEXT = bytes(BLOCK), b"short".ljust(BLOCK, b"\0"), b"words and words\n" * 256
NOISE = Random(1).randbytes(BLOCK)
ATTRIBUTES = Attributes(FILE, 0o100644, 1, 2, 3, 4, 5, 6, 7, 8, 2.5)
MESSAGES: list[Message] = [
    Fetch(FILE, -1, 1, (0,)),
    Fetch(FILE, 0, 2, (0, 7), True),
    Blocks(FILE, 4, 2, (5,), CONTENT, (9, 1 << 63), (True, False)),
    Blocks(FILE, 4, 1, (), b"", (9,), (False,)),
    Acquire(FILE, 0, 3, (0, 1, 2)),
    Acquire(FILE, 3, 4, (0, 1, 2, 3), range(4, 6)),
    Acquire(FILE, -1, 1, (0,)),
    Ownership(FILE, 0, 2, (0, 1), CONTENT * 2, (1, 2), (True, False), (False, True), 9),
    Push(FILE, 3, 2, (3, 4), CONTENT * 2, True),
    Flush(FILE, 3, 2, (3,), CONTENT),
    LogWrite(FILE, 3, 1, 4000, bytes(96)),
    LogWrite(FILE, 3, 1, 0, b""),
    LogWrite(FILE, 3, 1, 0, TEXT),
    Flush(FILE, 3, 4, (3, 4, 5), ZEROS + TEXT + SHORT),
    Flush(FILE, 3, 2, (3, 4), NOISE * 2),
    Release(FILE, 3, 2, (4,), CONTENT, 1 << 40),
    Ack(FILE, 3, 1),
    RefusalReply(FILE, 3, 2, (4,)),
    Invalidate(FILE, 3, 1024),
    Invalidate(FILE, 3, 1, Keep.STALE),
    InvalidateReply(FILE, 3, 2, (True, False)),
    Recall(FILE, 3, 2, Keep.COPY, False),
    Recall(FILE, 3, 2, Keep.LENT),
    RecallReply(FILE, 3, 2, (3,), CONTENT, (True, False)),
    Update(FILE, 3, 1, (3,), CONTENT, (4,)),
    UpdateReply(FILE, 3, 1, (True,)),
    Engage(FILE, 0, 0),
    Engage(FILE, 0, 0, 3, 1 << 40),
    EngageReply(FILE, 0, 0, ((-1, 3), (9, 1)), ((7, 2),)),
    NativeGrant(FILE, 0, 0, 3),
    Ack(FILE, 0, 0),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert codec.decode(codec.encode(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_that_is_cut_or_longer_is_refused(message: Message) -> None:
    payload = codec.encode(message)
    for broken in (payload[:24], b"", payload + bytes(5000)):
        with pytest.raises(IntegrityError):
            codec.decode(broken)


def test_golden_bytes() -> None:
    payload = "0307000000000000000200000000000000020000000000000001000100" + "00" * 16
    assert codec.encode(Acquire(FILE, 2, 2, (0, 0), range(3, 4))).hex() == payload
    payload = "02070000000000000002000000000000000100000000000000090000000000000001" + "00" * 4
    assert codec.encode(Blocks(FILE, 2, 1, (), b"", (9,), (True,))).hex() == payload
    payload = "1107000000000000000000000000000000000000000000000003000000000000000900000000000000"
    assert codec.encode(Engage(FILE, 0, 0, 3, 9)).hex() == payload
    extent = Extent(5, 1, 2, 3).pack()
    assert len(extent) == BLOCK
    assert extent[:16].hex() == "01000000000000000500000000000000"
    extent = Extent(5, -(1 << 63) - 1, 7, 10**19 + 3).pack()
    assert extent[:40].hex() == (
        "0200bf1c30000000050000000000000008ac1c5a643bdfff00000000000000000000c16ff2862300"
    )


HEAD = "07000000000000000300000000000000"
"""File 7, block 3."""

CONTENTS = {
    "a block ends at its last byte that is not zero": (
        Flush(FILE, 3, 2, (3, 4), ZEROS + SHORT),
        f"0d{HEAD}02000000000000000200000003000000000000000400000000000000000005000073686f7274",
    ),
    "what was written says how long it was": (
        LogWrite(FILE, 3, 1, 904, b"new\0\0"),
        f"06{HEAD}01000000000000008803000005000300006e6577",
    ),
}
FRAME = "28b52ffd60000fd5000080776f72647320616e6420776f7264730a0200e89fe981086509"
"""Of TEXT, as zstd 1.5.4 makes it."""


@pytest.mark.parametrize("name", CONTENTS)
def test_golden_bytes_of_content(name: str) -> None:
    message, payload = CONTENTS[name]
    assert codec.encode(message).hex() == payload
    assert codec.decode(bytes.fromhex(payload)) == message


def test_golden_bytes_of_content_that_is_compressed() -> None:
    payload = f"06{HEAD}0100000000000000000000000010001001" + FRAME
    assert codec.decode(bytes.fromhex(payload)) == LogWrite(FILE, 3, 1, 0, TEXT)


def test_only_what_gets_shorter_is_compressed() -> None:
    def length(data: bytes) -> int:
        return len(codec.encode(LogWrite(FILE, 3, 1, 0, data))) - len(
            codec.encode(LogWrite(FILE, 3, 1, 0, b""))
        )

    assert length(b"ten bytes!") == 13
    assert length(NOISE) == BLOCK + 3
    assert length(TEXT[:255]) == 255 + 3
    assert length(TEXT) < 50
    assert length(Extent(5, 1, 2, 1 << 60).pack()) == 43


@given(st.lists(st.sampled_from([ZEROS, SHORT, TEXT, NOISE, CONTENT]), max_size=6))
def test_blocks_come_whole_however_they_went(blocks: list[bytes]) -> None:
    fresh = tuple(range(len(blocks)))
    message = Flush(FILE, 0, max(1, len(blocks)), fresh, b"".join(blocks))
    assert codec.decode(codec.encode(message)) == message


LENGTHS = {
    "longer than the block": "011000" + "61" * 4097,
    "longer than what is there": "0300006161",
    "shorter than what is there": "03000061616161",
    "nothing": "",
    "no form": "0000",
    "another form": "01000261",
    "a frame of more": "ff0f01" + FRAME,
    "a frame of much more": "001001" + str((compress(bytes(1 << 24)) or b"").hex()),
    "a frame of less": "001001" + str((compress(TEXT[:400]) or b"").hex()),
    "a frame that is cut": "001001" + FRAME[:-4],
    "no frame": "030001616161",
}


@pytest.mark.parametrize("name", LENGTHS)
def test_content_of_other_lengths_is_refused(name: str) -> None:
    head = bytes.fromhex(f"0d{HEAD}0100000000000000010000000300000000000000")
    codec.decode(head + bytes.fromhex("030000616161"))
    with pytest.raises(IntegrityError):
        codec.decode(head + bytes.fromhex(LENGTHS[name]))


def test_golden_bytes_of_what_home_promises() -> None:
    stale = Notices.stale.encode(EVERYTHING, None)
    assert stale == b'\x40["stale", 0, null]'
    attributes = ATTRIBUTES
    entry = codec.encode_result(DirEntry(b"a", attributes, valid=5.0))
    assert entry == b'\x41["a", [7, 33188, 1, 2, 3, 4, 5, 6, 7, 8, 2.5], 5.0]'
    made = NewEntry(DirEntry(b"a", attributes, valid=5.0), None)
    assert codec.encode_result(made) == b"\x41[" + entry[1:] + b", null, false, []]"
    own = replace(made, own=(OwnFolder(FILE, None, 100),))
    assert codec.encode_result(own).endswith(b", null, false, [[7, null, 100]]]")
    unmade = codec.encode_result(RemovedEntry(None, attributes))
    assert unmade == b"\x41[null, [7, 33188, 1, 2, 3, 4, 5, 6, 7, 8, 2.5]]"
    for hint, value in (
        (NewEntry, made),
        (NewEntry, own),
        (RemovedEntry, RemovedEntry(None, attributes)),
    ):
        assert codec.decode_reply(codec.encode_result(value), hint) == value


def test_golden_bytes_of_opens_and_closes() -> None:
    said: list[bytes] = []

    class RecordingChannel:
        """A channel."""

        def request(self, payload: bytes, arrived: object = None) -> bytes:
            said.append(payload)
            return codec.encode_result(OpenReply(ATTRIBUTES, True, 0.0, "write-update"))

        def post(self, payload: bytes, arrived: object, failed: object) -> None:
            said.append(payload)

    hub = Hub(cast("HomeLink", RecordingChannel()), NodeId(1))
    hub.open(FILE, True, False)
    hub.written(lambda _: None, FILE)
    hub.close(lambda _: None, FILE)
    assert said == [b'\x40["open", 7, true, false]', b'\x40["written", 7]', b'\x40["close", 7]']
    opened = codec.encode_result(OpenReply(ATTRIBUTES, True, 0.0, "optimal", "off", 3, "private"))
    assert opened.endswith(b'true, 0.0, "optimal", "off", 3, "private"]')
    assert codec.encode_call("mark", [FILE, "private"]) == b'\x40["mark", 7, "private"]'
    said.clear()
    making = PendingCreate(FILE, FileId(3), b"a", 0o644, 1, 2, 9)
    hub.ids(lambda _: None)
    hub.make(lambda _: None, making)
    hub.make_again(lambda _: None, making)
    about = b'[7, 3, "a", 420, 1, 2, 9]]'
    assert said == [b'\x40["ids"]', b'\x40["make", ' + about, b'\x40["make_again", ' + about]


def test_content_of_blocks_that_the_message_is_not_about_is_refused() -> None:
    for fresh in ((6,), (4, 4), (-1,)):
        payload = codec.encode(RecallReply(FILE, 4, 2, fresh, CONTENT * len(fresh), (True, False)))
        with pytest.raises(IntegrityError):
            codec.decode(payload)


def test_a_run_longer_than_any_is_refused_before_it_takes_memory() -> None:
    payload = bytearray(codec.encode(Fetch(FILE, 0, 1, (0,))))
    payload[17:25] = (1 << 60).to_bytes(8, "little")
    with pytest.raises(IntegrityError, match="blocks in one message"):
        codec.decode(bytes(payload))


def test_a_call_carries_names_that_are_no_text() -> None:
    name, values = codec.decode_call(codec.encode_call("lookup", [FILE, b'\xff\n"x']))
    assert (name, Hub.lookup.arguments(values)[1:]) == ("lookup", [b'\xff\n"x'])


def test_results_have_the_types_that_the_hub_promises() -> None:
    attributes = Attributes(FILE, 0o100644, 1, 0, 0, 5, 1, 2, 3)
    entries = [DirEntry(b"a", attributes), DirEntry(b"\xfe", attributes)]
    assert codec.decode_reply(codec.encode_result(entries), list[DirEntry]) == entries
    lock = (0, 5, LockKind.WRITE, 77)
    hint = tuple[int, int, LockKind, int] | None
    assert codec.decode_reply(codec.encode_result(lock), hint) == lock
    assert codec.decode_reply(codec.encode_result(None), hint) is None


@pytest.mark.parametrize("values", [[], ["x", "y"], [1, 2], [1, "a", "b"], [True, "a"], [[1], "a"]])
def test_arguments_of_another_kind_are_refused(values: list[object]) -> None:
    with pytest.raises(IntegrityError):
        Hub.lookup.arguments(values)


def test_a_refusal_is_the_error_that_home_had() -> None:
    with pytest.raises(FileNotFoundError):
        codec.raise_refusal(codec.encode_refusal(FileNotFoundError(2, "gone")))


def test_block_minus_one_of_a_peer_that_is_none_is_refused() -> None:
    for moment in (-1, -(1 << 63), 1 << 63, -(10**20) - 1, 9 * 10**21 + 999):
        extent = Extent(5, moment, 2, 3)
        assert Extent.unpack(extent.pack()) == extent
    assert Extent.unpack(Extent(5, 1, 2, 1 << 90).pack()).changed > 1 << 72
    broken = [(1 | 1 << 16).to_bytes(8, "little"), (2 | 1000 << 16).to_bytes(8, "little")]
    for block in (b"", bytes(BLOCK), b"\xff" * BLOCK, *(head + bytes(4088) for head in broken)):
        with pytest.raises(IntegrityError):
            Extent.unpack(block)
