# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Parsers of what is heard from those whom nobody knows yet: who pairs, who announces himself, who
wrote the stick, who answered; and all parsers for longer in nightly runs, with other inputs each
time. README.md beside this has the list of all."""

import base64
import json
import os
import random
import re
import socket
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import HealthCheck, seed, settings
from zeroconf import ServiceInfo

from client.session.proof import Proof, ProofInvalid
from media import MediaSealed, SealKeys, new_seal
from replay.adapters import http, rfb
from replay.operations import Operation, RecordInvalid
from replay.secrecy import conceal, reveal
from replay.stream_records import (
    RecordReader,
    StreamEntry,
    StreamRecord,
    StreamRecordInvalid,
    decode_hello,
    encode_hello,
    encode_window,
)
from satchel.errors import UsageError
from satchel.ids import CheckpointId, OperationNumber
from tests.hostile.test_guests_and_services import PARSERS as GUESTS
from tests.hostile.test_parsers import EXAMPLES, PARSERS, Parser, check, drawn, in_file
from tests.hostile.test_parsers import UUID as A_UUID
from tests.needs import requires
from uplink.gateway.resolver import BadQuestion, read_question
from wire import AnswerSigner, RemoteProtocolError, SignedStatement, Statement
from wire.errors import LocalProtocolError
from wire.keys.authority import read_certificate
from wire.keys.pairing import (
    Address,
    AuthenticatedMessage,
    Grant,
    Hello,
    KeyShare,
    PairRequest,
    _Channel,
)
from wire.nearby import SERVICE, _seen

pytestmark = requires("ssh-keygen")

ROOT = Path(__file__).parents[2]

MANY = int(os.environ.get("SATCHEL_MANY_INPUTS", "1_000_000"))
MINUTE = float(os.environ.get("SATCHEL_MANY_SECONDS", "60"))
ENDS = [b"", b"0", b"-1", b"9" * 20, b"\xff" * 4, b"\xff" * 8, bytes(8), b"\x80", b"[", b'"', b"\n"]

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = PRIVATE.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
OPENSSH = PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
SECRET = bytes(range(32))
SEALED = new_seal([PUBLIC])
MINE = Operation(OperationNumber(7), 5, 6, b"GET / HTTP/1.1\r\n\r\n")

GRANT = Grant("surrogate", "cafe", "satchel", 22, "/run/s.sock", host_keys=(PUBLIC,))
PAIRED = [
    Hello(1, "surrogate"),
    KeyShare("53" * 33),
    AuthenticatedMessage('{"name":"phone"}', "ab" * 32),
    PairRequest("phone", PUBLIC),
    GRANT,
]

SAID = Statement.of("notes", "notes-0badcafe", "operation", 7, b"GET /", b"200 no")
EXPECTED = Statement.of("notes", "home", "operation", 7, b"GET /", b"200 yes")


HOME_SIGNED = (
    "-----BEGIN SSH SIGNATURE-----\n"
    "U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgA6EHv/POEL4dcN0Y50vAmWfk1j\n"
    "CbpQ1fHdyGZBJVMbgAAAAOc2F0Y2hlbC1hbnN3ZXIAAAAAAAAABnNoYTUxMgAAAFMAAAAL\n"
    "c3NoLWVkMjU1MTkAAABAJSB1wzj84xjMmOwtiISuLsIi9P9pxHXd3n4lrYWXu07E8UKKwe\n"
    "Ii1n2QDlmaT86iDXcIwemAOUzoXKxhfNLQDQ==\n"
    "-----END SSH SIGNATURE-----\n"
)
"""By `ssh-keygen -Y sign -n satchel-answer`, with PRIVATE for the owner's key."""

CERTIFICATE = (
    b"ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tAAAAIFNOZyNh"
    b"Hxm0Ag2gqYcwSqWOud3CRnSgja34ERRAeYwJAAAAIPIGtwsWT5M0AjQnMz6NfoTNDdtCd1NfOPvTuvUCeZ3IAAAAAAAA"
    b"AAcAAAABAAAABWd1ZXN0AAAABQAAAAF1AAAAAAAAAAD//////////wAAAAAAAAAAAAAAAAAAADMAAAALc3NoLWVkMjU1"
    b"MTkAAAAgtKG3MjOihMRAPT15w5IcU0uvchuDEDioMmL3B8qTsQwAAABTAAAAC3NzaC1lZDI1NTE5AAAAQFJbEvU7ux4Z"
    b"RskRzeiz+59umzmpCRP7Jv/ubqE71nFHl8lqTe16B21/YLazrKGrJqVivlGq1R35qgnALqXG8A4="
)
"""By `ssh-keygen -s`: valid forever, for the user `u`, with the key id `guest`."""


def proof() -> Proof:
    signature = base64.b64encode(PRIVATE.sign(SAID.to_bytes())).decode()
    theirs = SignedStatement(SAID.replica, SAID.answered.hex(), PUBLIC, signature)
    home = SignedStatement("home", EXPECTED.answered.hex(), PUBLIC, HOME_SIGNED)
    return Proof(1, "cafe", "notes", 7, SAID.asked.hex(), theirs, home)


PROOF = proof()


def of_text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("utf-8", "surrogateescape"))


def frame_of(data: bytes) -> object:
    """As whoever connects to a code that is shown sends it, and then nothing more."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        theirs.sendall(data[: 64 << 10])
        theirs.close()
        return _Channel(mine).receive(KeyShare)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def announced(data: bytes) -> object:
    """As a TXT record has it, under a name that begins with the same bytes."""
    name = f"{data[:20].decode('latin-1')}.{SERVICE}"
    for named in (name, f"cafe.{SERVICE}"):
        with suppress(Exception):  # zeroconf's own refusal of a name comes before us
            info = ServiceInfo(SERVICE, named, 22, addresses=[b"\xc0\0\2\7"], properties=data)
            break
    return _seen(info)


def texts(**fields: str) -> bytes:
    pairs = (f"{name}={value}".encode() for name, value in fields.items())
    return b"".join(bytes([len(pair)]) + pair for pair in pairs)


def unlocked(path: Path) -> None:
    SealKeys().unlock(path.parents[1], A_UUID, SEALED.phrase)


def unwrapped(path: Path) -> object:
    """By a client's SSH key."""
    identity = path.with_name("identity")
    identity.write_bytes(OPENSSH)
    return SealKeys(None, (identity,)).seal_of(path.parents[1], str(UUID(A_UUID)))


def revealed(data: bytes) -> object:
    """What somebody with the medium's key has sealed."""
    nonce = bytes(12)
    sealed = AESGCM(SECRET).encrypt(nonce, data, (7).to_bytes(8, "little"))
    return reveal(SECRET, Operation(OperationNumber(7), 0, 0, nonce + sealed))


def plain_of(operation: Operation) -> bytes:
    kept = conceal(SECRET, operation).payload
    return AESGCM(SECRET).decrypt(kept[:12], kept[12:], (7).to_bytes(8, "little"))


def stream_records(data: bytes) -> object:
    found = []
    for kind, stream, position, payload in RecordReader().feed(data):
        found.append(
            (stream, position, decode_hello(payload) if kind is StreamRecord.HELLO else payload)
        )
    return found


STRANGERS = [
    *(
        Parser(
            f"pairing-{type(m).__name__}", type(m).from_bytes, (RemoteProtocolError,), m.to_bytes()
        )
        for m in PAIRED
    ),
    Parser(
        "pairing-frame", frame_of, (RemoteProtocolError, OSError), framed(KeyShare("ab").to_bytes())
    ),
    Parser(
        "pairing-address",
        of_text(lambda text: Address.parse(text, "cafe.example:4736")),
        (UsageError, LocalProtocolError),
        Address("cafe.example", 4736, "12345678").uri.encode(),
    ),
    Parser(
        "pairing-place",
        of_text(lambda text: Address.parse("1234-5678", text)),
        (UsageError, LocalProtocolError),
        b"[fe80::1]:4736",
    ),
    Parser(
        "announcement",
        announced,
        (),
        texts(txtvers="2", runs="kvm,tcg", load="12", price="free", keys=f"SHA256:{43 * 'A'}"),
    ),
    Parser(
        "certificate",
        of_text(read_certificate),
        (LocalProtocolError,),
        CERTIFICATE,
    ),
    Parser(
        "dns-question",
        read_question,
        (BadQuestion,),
        bytes.fromhex("beef01000001000000000000") + b"\5cloud\7example\0\0\1\0\1",
    ),
    Parser("key-of-answers", of_text(AnswerSigner), (RemoteProtocolError,), PUBLIC.encode()),
    Parser(
        "signed-statement",
        SignedStatement.from_bytes,
        (RemoteProtocolError,),
        PROOF.surrogate_says.to_bytes(),
    ),
    Parser("proof", lambda data: Proof.decode(data).verify(), (ProofInvalid,), PROOF.encode()),
    Parser(
        "key.age-by-phrase", in_file("satchel/key.age", unlocked), (MediaSealed,), SEALED.wrapped
    ),
    Parser("key.age-by-key", in_file("satchel/key.age", unwrapped), (MediaSealed,), SEALED.wrapped),
    Parser(
        "sealed-name",
        of_text(SEALED.seal.named_by),
        (),
        SEALED.seal.file_names("notes", CheckpointId("0f3c9a5be1d27c44"))[0].encode(),
    ),
    Parser(
        "sealed-operation",
        lambda data: reveal(SECRET, Operation(OperationNumber(7), 0, 0, data)),
        (RecordInvalid,),
        conceal(SECRET, MINE).payload,
    ),
    Parser("operation-inside-the-seal", revealed, (RecordInvalid,), plain_of(MINE)),
    Parser(
        "stream-records",
        stream_records,
        (StreamRecordInvalid,),
        encode_hello(bytes(16), [(1, StreamEntry(False, 5, 9))]) + encode_window(1, 5, 9),
    ),
    Parser(
        "response-of-http",
        http.decode,
        (http.NotHttp,),
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ),
    Parser(
        "response-of-rfb",
        rfb.decode,
        (rfb.NotADesktop,),
        rfb._ANSWER.pack(rfb._SAYS, rfb._VERSION, rfb._FAILED, 0, 0, bytes(32))
        + zlib.compress(bytes(4)),
    ),
]


@pytest.mark.parametrize("parser", STRANGERS, ids=lambda parser: parser.name)
def test_any_bytes_give_a_value_or_the_documented_error(parser: Parser) -> None:
    check(parser, drawn)


def test_the_samples_are_taken() -> None:
    """Else nothing but the refusal of everything would be tried."""
    for parser in [*STRANGERS, *GUESTS]:
        parser.parse(parser.seed)
    assert Proof.decode(PROOF.encode()) == PROOF
    AnswerSigner(PUBLIC).verify(SAID, base64.b64decode(PROOF.surrogate_says.signature))


@pytest.mark.nightly
@pytest.mark.parametrize("parser", [*PARSERS, *STRANGERS, *GUESTS], ids=lambda parser: parser.name)
def test_other_bytes_each_night(parser: Parser) -> None:
    """What fails is repeated by the number that is printed: `seed` below."""
    number = random.SystemRandom().getrandbits(32)
    print(f"seed({number})")
    many = settings(
        max_examples=EXAMPLES * 100,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    check(parser, lambda test: seed(number)(many(test)))


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("parser", [*PARSERS, *STRANGERS, *GUESTS], ids=lambda parser: parser.name)
def test_many_changed_samples_each_night(parser: Parser) -> None:
    """As fast as the parser is, without a look at its memory: for a minute, or MANY of them."""
    number = random.SystemRandom().getrandbits(32)
    print(f"random.Random({number})")
    chance, count, until = random.Random(number), 0, time.monotonic() + MINUTE
    while count < MANY and time.monotonic() < until:
        data = changed(parser.seed, chance)
        try:
            with suppress(*parser.errors):
                parser.parse(data)
        except BaseException:
            print(f"input {count}: {data!r}")
            raise
        count += 1
    print(f"{parser.name}: {count} inputs")
    assert count


def changed(sample: bytes, chance: random.Random) -> bytes:
    """It with a few bytes replaced, removed or added, or a number at one place that is an end of a
    range; now and then without its beginning or its end."""
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randint(0, len(sample)), chance.choice([0, 1, 1, 1, 2, 4, 8])
        if (kind := chance.randrange(8)) == 0:
            sample = sample[at:] if chance.random() < 0.5 else sample[:at]
        else:
            new = (
                chance.choice(ENDS) if kind < 3 else chance.randbytes(chance.choice([0, 1, length]))
            )
            sample = sample[:at] + new + sample[at + length :]
    return sample


def test_the_list_has_every_parser_and_every_fuzzer() -> None:
    said = set(re.findall(r"`([A-Za-z0-9._-]+)`", (ROOT / "tests/hostile/README.md").read_text()))
    fuzzers = {path.stem for path in (ROOT / "tests/native/fuzz").glob("*.cc")} - {"seeds"}
    names = {re.sub(r"-\d+$", "", parser.name) for parser in [*PARSERS, *STRANGERS, *GUESTS]}
    assert fuzzers | names <= said


def test_a_public_key_that_is_not_ascii_is_refused() -> None:
    told = PairRequest("phone", PUBLIC).to_bytes().replace(b"AAAA", "\u00e9AAA".encode())
    with pytest.raises(RemoteProtocolError):
        PairRequest.from_bytes(told)


@pytest.mark.parametrize("text", ["satchel://[", "satchel://pair?" + "at=a&" * 100])
def test_a_code_to_scan_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Address.parse(text)


def test_a_message_of_the_list_is_json() -> None:
    """So that values inside of it are replaced, and not bytes alone."""
    for message in PAIRED:
        assert isinstance(json.loads(message.to_bytes()), dict)
