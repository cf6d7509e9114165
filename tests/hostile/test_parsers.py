# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Parsers in Python of what strangers write: any bytes give a value or the documented error, and
no more memory than a multiple of what was given.

The parsers in C++ have fuzzers (tests/native/fuzz). SATCHEL_EXAMPLES=100000 is a longer run, which
draws others each time.
"""

import io
import json
import os
import struct
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chunkstore import (
    MediaDamaged,
    PageChangesInvalid,
    StoreUsage,
    TableRoot,
    decode_page_changes,
    decode_places,
)
from client.platform.settings import ClientSettings
from homeserver.settings import HomeSettings
from images import (
    Manifest,
    ManifestInvalid,
    ManifestUnsupported,
    Recipe,
    RecipeInvalid,
    RecipeNotFound,
)
from images.partitions import read_layout
from images.recipe import SHIPPED
from images.signatures import kind_of
from media import media_uuid
from replay.batch import (
    answers_in,
    decode_operations,
    decode_piece,
    encode_answers,
    encode_operations,
    encode_piece,
    encode_responses,
    responses_in,
)
from replay.chain import UNSEALED, KeyRing, encode_trailer
from replay.frames import AgentFrame, FrameReader
from replay.operations import AnswerPreview, LongAnswerStart, Operation, RecordInvalid, Response
from replay.samples import ReadDigest, Sample, Samples, split_samples
from replay.segments import LogCorrupt, LogUnsupported, encode_header, scan_segment
from replica import (
    ProfileInvalid,
    WorkingSetInvalid,
    decode_profile,
    decode_working_set,
    names_extent,
)
from satchel.errors import IntegrityError
from satchel.ids import ChunkRef, OperationNumber
from satchel.settings import SettingsError, load
from shares.node.hub.codec import decode, encode
from shares.protocol import FileId, Flush, LogWrite
from shares.session.records import BufferedWrite, OpenFileRecord, SessionHeader
from shares.session.records import pack_all as pack_session
from shares.session.records import unpack as unpack_session
from surrogate.settings import SurrogateSettings
from tests.chunkstore.test_page_changes import GOLDEN as PAGE_CHANGES
from tests.chunkstore.test_page_changes import SMALL as CHANGED
from tests.images.test_manifest import GOLDEN as MANIFEST
from tests.replica.test_profile import GOLDEN as PROFILE
from tests.replica.test_profile import VOLUMES as PROFILED
from tests.replica.test_working_set import DIRECTORY, NAMELESS, VOLUMES
from tests.wire.test_messages import MESSAGES
from wire import RemoteProtocolError
from wire.codec import loads

T = TypeVar("T")
EXAMPLES = int(os.environ.get("SATCHEL_EXAMPLES", "100"))
UNIT = 128
"""Bytes of memory for each byte of input: an empty list in JSON takes three bytes, and 88 here."""
FIXED = 1 << 20

drawn = settings(
    max_examples=EXAMPLES,
    derandomize="SATCHEL_EXAMPLES" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Parser:
    """parse: bytes of a stranger to a value. errors: what it documents. seed: what it takes."""

    name: str
    parse: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    seed: bytes


def in_file(name: str, parse: Callable[[Path], T]) -> Callable[[bytes], T]:
    """A parser of a file of that name."""

    def parse_bytes(data: bytes) -> T:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            return parse(path)

    return parse_bytes


def settings_of(cls: type[object]) -> Callable[[bytes], object]:
    return in_file("settings.toml", lambda path: load(cls, path))


def table_root(data: bytes) -> object:
    with suppress(ValueError, RecursionError):
        return TableRoot.from_json(json.loads(data))
    return None


def table_of(data: bytes) -> dict[str, Any]:
    """The table that these bytes are in JSON; an empty one where they are none."""
    with suppress(ValueError, RecursionError):
        value = json.loads(data)
        return value if isinstance(value, dict) else {}
    return {}


ROOT = TableRoot(ChunkRef(bytes(range(52))), 4097)
OPERATIONS = [
    Operation(OperationNumber(7), 5, 6, b"GET / HTTP/1.1\r\n\r\n"),
    Operation(OperationNumber(8), 9, 2**64 - 1, b"\xc0\xdb" * 20),
]
SAMPLES = Samples(tuple(Sample(OperationNumber(6), one) for one in OPERATIONS), padding=3)
KEY_RING = KeyRing.new().changed(days=30)
RESPONSES = [Response(OperationNumber(7), b"200"), Response(OperationNumber(8), b"")]
FRAME = AgentFrame(type=2, id=1, number=7, payload=b"\xc0\xdb\xdc")
UUID = "01234567-89ab-4cde-8f01-23456789abcd"
TOML = b'name = "phone"\nmedia = "~/stick"\n[home]\nport = 22\n[surrogates.cafe]\nsocket = "/s"\n'

SENT = Flush(FileId(7), 3, 2, (3, 4), b"a".ljust(4096, b"\0") + bytes(4096))
SENT_COMPRESSED = Flush(FileId(7), 3, 1, (3,), b"words\n" * 682 + b"more")
LOGGED = LogWrite(FileId(7), 3, 1, 904, b"new\0")

SESSION = pack_session(
    [SessionHeader(1, b"editor"), OpenFileRecord(3, 7, 2, 11, b"notes"), BufferedWrite(3, 5, b"x")]
)

GPT = (
    bytes(446) + struct.pack("<B3xB3xII", 0, 0xEE, 1, 9) + bytes(48) + b"\x55\xaa"
    + struct.pack("<8s64xQII", b"EFI PART", 2, 2, 128) + bytes(424)
    + struct.pack("<16s16sQQ", bytes(range(16)), bytes(16), 3, 4) + bytes(1024)
)  # fmt: skip

PARSERS = [
    Parser(
        "file-kind", lambda data: kind_of(data, data[-512:]), (), b"<!-- a --> <!-- b --> <html>"
    ),
    Parser("partitions", lambda data: read_layout(io.BytesIO(data)), (), GPT),
    Parser("json", loads, (RemoteProtocolError,), b'{"a":[1,2.5,null,"\\ud800x"]}'),
    *(
        Parser(f"{type(m).__name__}-{n}", type(m).from_bytes, (RemoteProtocolError,), m.to_bytes())
        for n, m in enumerate(MESSAGES)
    ),
    Parser("manifest", Manifest.from_bytes, (ManifestInvalid, ManifestUnsupported), MANIFEST),
    Parser("table-root", table_root, (StoreUsage,), json.dumps(ROOT.to_json()).encode()),
    Parser("places", decode_places, (StoreUsage,), bytes(52) + bytes([1, 0, 8, 0] + [0] * 8)),
    *(
        Parser(
            name,
            lambda data: names_extent(decode_working_set(data, 1 << 20, VOLUMES)),
            (WorkingSetInvalid,),
            directory,
        )
        for name, directory in (("working-set", DIRECTORY), ("working-set-2", NAMELESS))
    ),
    Parser(
        "page-changes",
        lambda data: decode_page_changes(data, CHANGED),
        (PageChangesInvalid,),
        PAGE_CHANGES,
    ),
    Parser("profile", lambda d: decode_profile(d, PROFILED), (ProfileInvalid,), PROFILE),
    Parser("key-ring", KeyRing.from_bytes, (IntegrityError,), KEY_RING.to_bytes()),
    Parser("samples", split_samples, (RecordInvalid,), SAMPLES.encode()),
    Parser("operations", decode_operations, (RecordInvalid,), encode_operations(OPERATIONS)),
    Parser(
        "responses",
        lambda data: list(responses_in([data])),
        (RecordInvalid,),
        encode_responses(RESPONSES),
    ),
    Parser("agent-frames", lambda data: list(FrameReader().feed(data)), (), FRAME.encode()),
    Parser("session", lambda d: list(unpack_session(d)), (IntegrityError,), SESSION),
    Parser("client.toml", settings_of(ClientSettings), (SettingsError,), TOML),
    Parser("home.toml", settings_of(HomeSettings), (SettingsError,), b"settle = false\n"),
    Parser("surrogate.toml", settings_of(SurrogateSettings), (SettingsError,), b'name = "a"\n'),
    Parser(
        "recipe.toml",
        in_file("notes/recipe.toml", lambda path: Recipe.load(path.parent)),
        (RecipeInvalid, RecipeNotFound, SettingsError),
        (SHIPPED / "notes" / "recipe.toml").read_bytes(),
    ),
    Parser(
        "recipe-in-json",
        lambda data: Recipe.from_json(table_of(data)),
        (RecipeInvalid, SettingsError),
        json.dumps(Recipe.find("notes").to_json()).encode(),
    ),
    Parser(
        "media.json",
        in_file("satchel/media.json", lambda path: media_uuid(path.parents[1])),
        (MediaDamaged,),
        json.dumps({"format": "satchel-media", "version": 3, "uuid": UUID}).encode(),
    ),
    Parser("content-of-a-share", decode, (IntegrityError,), encode(SENT)),
    Parser("compressed-content-of-a-share", decode, (IntegrityError,), encode(SENT_COMPRESSED)),
    Parser("logged-write-of-a-share", decode, (IntegrityError,), encode(LOGGED)),
    Parser(
        "log-segment",
        in_file("log-00000007.log", scan_segment),
        (LogCorrupt, LogUnsupported),
        encode_header(7, 1)
        + b"".join(one.encode() + encode_trailer(UNSEALED) for one in OPERATIONS),
    ),
]

SPLICES = st.tuples(st.integers(0, 2**16), st.integers(0, 12), st.binary(max_size=12))
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8)
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
DEEP = st.integers(1, 5_000).map(lambda depth: b"[" * depth) | st.integers(1, 5_000).map(
    lambda depth: b"a=" + b"[" * depth
)


def spliced(seed: bytes, splices: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, replacement in splices:
        begin = at % (len(seed) + 1)
        seed = seed[:begin] + replacement + seed[begin + length :]
    return seed


def replaced(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """The JSON value with something else at one place."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: replaced(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], replaced(value[at], draw), *value[at + 1 :]]
    return draw(VALUES)


def inputs(parser: Parser) -> st.SearchStrategy[bytes]:
    """Anything, what it takes but for a few bytes, and for JSON but for a value."""
    kinds = [
        st.binary(max_size=200),
        DEEP,
        st.lists(SPLICES, max_size=4).map(lambda splices: spliced(parser.seed, splices)),
    ]
    if parser.seed.startswith(b"{"):
        value = json.loads(parser.seed)
        compact = {"sort_keys": True, "separators": (",", ":")}
        other = st.composite(lambda draw: replaced(value, draw))()
        kinds.append(other.map(lambda v: json.dumps(v, **compact).encode() + b"\n"))  # type: ignore[arg-type]
    return st.one_of(kinds)


def taken(parser: Parser, data: bytes) -> int:
    """Bytes of memory that parsing has taken at most."""
    tracemalloc.start()
    try:
        with suppress(*parser.errors):
            parser.parse(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def check(parser: Parser, how: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
    """Any bytes give a value or the documented error, and take little memory."""
    with suppress(RemoteProtocolError):  # the sample for `loads` is one that it refuses
        parser.parse(parser.seed)

    @how
    @given(inputs(parser))
    def holds(data: bytes) -> None:
        most = FIXED + UNIT * len(data)
        # What the interpreter does once in a while, such as a collection, is not the parser's.
        assert taken(parser, data) < most or taken(parser, data) < most

    holds()


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_any_bytes_give_a_value_or_the_documented_error(parser: Parser) -> None:
    check(parser, drawn)


NUMBERS = st.integers(0, 2**64 - 1)
ONES = st.integers(1, 2**64 - 1).map(OperationNumber)
PAYLOADS = st.binary(max_size=300)


@drawn
@given(st.lists(st.builds(Operation, ONES, NUMBERS, NUMBERS, PAYLOADS)))
def test_operations_come_back(operations: list[Operation]) -> None:
    assert decode_operations(encode_operations(operations)) == operations


@drawn
@given(st.lists(st.builds(Response, ONES, PAYLOADS)))
def test_responses_come_back(responses: list[Response]) -> None:
    assert list(responses_in([encode_responses(responses)])) == responses


@drawn
@given(
    st.lists(
        st.builds(Response, ONES, PAYLOADS)
        | st.builds(LongAnswerStart, ONES)
        | st.builds(Response, ONES, st.just(b""), said=st.binary(min_size=32, max_size=32))
    )
)
def test_long_answers_come_back(answers: list[Response | LongAnswerStart]) -> None:
    assert list(answers_in([b"".join(encode_answers(answers))])) == answers


def test_samples_and_their_digests_golden_bytes() -> None:
    operation = Operation(OperationNumber(7), 1, 2, b"read")
    record = operation.encode()
    data = Samples((Sample(OperationNumber(6), operation),), padding=5).encode()
    assert data[:24].hex() == "534154520100000039000000000000000600000000000000"
    assert (data[24:-5], len(data)) == (record, 24 + len(record) + 5)
    assert split_samples(data + record) == ([Sample(OperationNumber(6), operation)], record)
    assert split_samples(record) == ([], record)
    digests = [
        ReadDigest(OperationNumber(7), bytes(range(32))),
        ReadDigest(OperationNumber(8), b""),
    ]
    said = b"".join(encode_answers(digests))
    assert said.hex() == (
        "53415444" "20000000" "0700000000000000" "8a7e2691" + bytes(range(32)).hex() +
        "53415444" "20000000" "0800000000000000" "ad550a19" + bytes(32).hex()
    )  # fmt: skip
    assert list(answers_in([said])) == digests


def test_what_is_said_of_a_long_answer_golden_bytes() -> None:
    said: list[Response | LongAnswerStart] = [
        LongAnswerStart(OperationNumber(7)),
        Response(OperationNumber(7), b"", said=bytes(range(32))),
    ]
    data = b"".join(encode_answers(said))
    assert data.hex() == (
        "53415442" "00000000" "0700000000000000" "00000000"
        "5341545a" "20000000" "0700000000000000" "8a7e2691" + bytes(range(32)).hex()
    )  # fmt: skip
    assert encode_piece(b"hello", ends=False) == b"\0hello"
    for wrong in (data[:-1], data.replace(b"SATB\0", b"SATB\1"), data[:-1] + b"x"):
        with pytest.raises(RecordInvalid):
            list(answers_in([wrong]))
    for wrong in (b"", b"\2hello"):
        with pytest.raises(RecordInvalid):
            decode_piece(wrong)


@drawn
@given(st.lists(st.builds(Response, ONES, PAYLOADS) | st.builds(AnswerPreview, ONES, PAYLOADS)))
def test_early_answers_come_back_and_what_stands_is_not_sent_twice(
    answers: list[Response | AnswerPreview],
) -> None:
    twice = [
        *answers,
        AnswerPreview(OperationNumber(7), b"x" * 50),
        Response(OperationNumber(7), b"x" * 50),
    ]
    data = b"".join(encode_answers(twice))
    assert list(answers_in([data])) == twice
    assert list(responses_in([data])) == [said for said in twice if isinstance(said, Response)]
    assert data.count(b"x" * 50) == 1
    with pytest.raises(RecordInvalid):
        list(answers_in([data[-20:]]))  # the last one, without the early answer that it is


@drawn
@given(st.lists(st.builds(Response, ONES, PAYLOADS)), st.integers(1, 100))
def test_responses_come_back_in_whatever_pieces(responses: list[Response], piece: int) -> None:
    data = encode_responses(responses)
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    assert list(responses_in(pieces)) == responses
    for count in range(1, len(pieces)):
        with suppress(RecordInvalid):  # where a record ends
            whole = list(responses_in(pieces[:count]))
            assert whole == responses[: len(whole)]


@drawn
@given(
    st.lists(
        st.builds(
            AgentFrame,
            st.integers(0, 255),
            st.integers(0, 2**32 - 1),
            number=NUMBERS,
            payload=PAYLOADS,
        )
    ),
    st.integers(1, 64),
)
def test_frames_come_back_in_whatever_pieces(frames: list[AgentFrame], piece: int) -> None:
    stream = b"".join(frame.encode() for frame in frames)
    reader = FrameReader()
    pieces = [stream[at : at + piece] for at in range(0, len(stream), piece)]
    assert [frame for part in pieces for frame in reader.feed(part)] == frames


@drawn
@given(st.builds(TableRoot, st.binary(min_size=52, max_size=52), st.integers(0, 2**52)))
def test_table_roots_come_back(root: TableRoot) -> None:
    assert TableRoot.from_json(json.loads(json.dumps(root.to_json()))) == root


@drawn
@given(st.lists(st.tuples(NUMBERS, NUMBERS, PAYLOADS)), st.integers(1, 2**32))
def test_a_segment_of_a_log_comes_back(contents: list[tuple[int, int, bytes]], first: int) -> None:
    operations = [
        Operation(OperationNumber(first + n), *content) for n, content in enumerate(contents)
    ]
    data = encode_header(first, 0)
    data += b"".join(one.encode() + encode_trailer(UNSEALED) for one in operations)
    segment, fault = in_file(f"log-{first:08d}.log", scan_segment)(data)
    assert fault is None
    assert (segment.end, len(segment.offsets)) == (len(data), len(operations))


def test_a_signature_belongs_to_the_response_behind_it() -> None:
    signed = [Response(OperationNumber(n), b"said %d" % n, bytes([n]) * 64) for n in (1, 2)]
    early = AnswerPreview(OperationNumber(2), b"said 2")
    data = b"".join(encode_answers([signed[0], early, signed[1]]))
    for size in (1, 7, len(data)):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        found = list(answers_in(pieces))
        assert found == [signed[0], early, signed[1]]
        assert [getattr(one, "signature", b"") for one in found] == [b"\1" * 64, b"", b"\2" * 64]
    first = encode_responses(signed[:1])
    plain = encode_responses([Response(OperationNumber(1), b"said 1")])
    signature = first[: -len(plain)]
    for wrong in (
        signature,  # and no response
        signature + first,
        signature + encode_responses([Response(OperationNumber(2), b"said 2")]),
        signature + b"".join(encode_answers([AnswerPreview(OperationNumber(1), b"said 1")])),
        encode_responses([Response(OperationNumber(1), b"said 1", b"short")]),
    ):
        with pytest.raises(RecordInvalid):
            list(answers_in([wrong]))
