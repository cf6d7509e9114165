# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Parsers of what guests, nodes of shares, cloud services and authors of images send."""

from __future__ import annotations

import io
import json
import socket
import struct
import tarfile
import tempfile
from pathlib import Path
from typing import cast

import pytest

from chunkstore import MediaDamaged
from client.fronts.pixels import NATIVE, PixelFormat
from client.fronts.web import HttpGuard
from client.moves.tracing import HostSpans
from guestshares import messages
from guestshares.calls import Call
from guestshares.counts import CallName
from guestshares.digests import call_digest
from guestshares.kernel import KernelRequest
from images import Freshness, ManifestInvalid, containers
from images.contract import ContractSpec
from images.layers import LayerInvalid, Layers
from images.raw import DiskImageInvalid, virtual_size
from media.parts import Part
from replay import StreamRefused
from replay.batch import decode_piece, encode_piece
from replay.operations import RecordInvalid
from replica import delta
from satchel.errors import (
    CapacityError,
    IntegrityError,
    SatchelError,
    UnsupportedError,
    UsageError,
)
from satchel.targets import split_target
from shares.context.successors import Successors, SuccessorsInvalid
from shares.node.extent import Extent
from shares.node.hub import codec
from shares.node.hub.membership import VERSION, JoinReply, JoinRequest
from tests.hostile.test_parsers import Parser, check, drawn, in_file, table_of
from tests.replica.test_delta import GOLDEN as DELTA
from uplink.policy import davxml, objects, sigv4
from uplink.policy.conditions import read_date
from volumes import misses
from wire import ErrorReport, RemoteProtocolError

LOOKUP = (
    (42).to_bytes(4, "little")
    + (1).to_bytes(4, "little")
    + (8).to_bytes(8, "little")
    + (7).to_bytes(8, "little")
    + bytes(16)
    + b"a\0"
)
REQUEST = KernelRequest.parse(LOOKUP)
CALL = messages.encode_call(Call(REQUEST, None))
DAV = (
    b'<?xml version="1.0"?><d:multistatus xmlns:d="DAV:"><d:response><d:href>/a%20b</d:href>'
    b'<d:propstat><d:prop><d:getetag>"1"</d:getetag><d:resourcetype><d:collection/>'
    b"</d:resourcetype></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    b"</d:multistatus>"
)
OBJECTS = (
    b'<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a/b</Key><ETag>"1"</ETag>'
    b"<Size>3</Size></Contents></ListBucketResult>"
)
CARRIED = {
    **{"kind": "http", "port": 80, "state": ["/srv"], "stateful": True, "read_only": []},
    "carry": {
        "behind": 30,
        "egress": {"at": "home", "hosts": ["a.example:80"]},
        "idempotent": ["GET /"],
        "ports": [{"front": "http", "port": 80, "local": 0}],
    },
}
SIGNED = (
    b"AWS4-HMAC-SHA256 Credential=AK/20260101/eu/s3/aws4_request, "
    b"SignedHeaders=host;x-amz-date, Signature=" + b"ab" * 32
)


def layer() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in (("a/b", b"content"), ("a/.wh.c", b"")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def layers_of(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as scratch:
        layers = Layers(Path(scratch), 1 << 20, ())
        layers.apply(io.BytesIO(data), "layer")
        return layers.tree


DIGEST = "sha256:" + "0" * 64
CONTAINER = {
    "config": {
        "Env": ["A=b"],
        "Entrypoint": ["/a"],
        "ExposedPorts": {"80-82/tcp": {}},
        "Volumes": {"/srv": {}},
    },
    "os": "linux",
    "architecture": "amd64",
}
MANIFEST = {"config": {"digest": DIGEST}, "layers": [{"digest": DIGEST}]}
QCOW2 = struct.pack(">4sIQIIQI", b"QFI\xfb", 3, 0, 0, 16, 1 << 30, 0).ljust(104, b"\0")
UNSENT = messages.UnsentCall(CallName(3, 0, call_digest(REQUEST)), bytes(16), REQUEST)


def container_of(data: bytes) -> object:
    said = table_of(data)
    with tempfile.TemporaryDirectory() as folder:
        for name, key in (("manifest.json", "manifest"), ("0" * 64, "config")):
            (Path(folder) / name).write_text(json.dumps(said.get(key)))
        return containers._read(Path(folder))


class Port:
    """A connection to port 80 here."""

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 80


def request_at_a_port(data: bytes) -> bytes:
    return HttpGuard(cast("socket.socket", Port())).to_guest(data)


PARSERS = [
    Parser(
        "description-of-a-container",
        container_of,
        (containers.ContainerInvalid, UnsupportedError, RemoteProtocolError),
        json.dumps({"manifest": MANIFEST, "config": CONTAINER}).encode(),
    ),
    Parser(
        "disk-image", in_file("disk", virtual_size), (DiskImageInvalid, UnsupportedError), QCOW2
    ),
    Parser(
        "request-at-a-port",
        request_at_a_port,
        (StreamRefused, UsageError),
        b"GET /a HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAccept: */*\r\n\r\n",
    ),
    Parser("unsent-call", messages.decode, (IntegrityError,), messages.encode(UNSENT)),
    Parser(
        "request-of-a-kernel", lambda d: KernelRequest.parse(d).refusal(), (IntegrityError,), LOOKUP
    ),
    Parser("call-of-a-guest", messages.decode_call, (IntegrityError,), CALL),
    Parser("surrogate-at-calls", messages.decode, (IntegrityError,), CALL),
    Parser("done-calls", messages.decode_done, (IntegrityError,), b""),
    Parser("first-call", messages.decode_first, (), messages.encode_first(3, b"session")),
    Parser(
        "hello-of-calls",
        messages.CallHello.unpack,
        (SatchelError,),
        messages.CallHello("notes-1", "a-1", 0).pack(),
    ),
    Parser(
        "delta", lambda d: delta.decode(d, {"disk0": 4, "memory": 9}), (delta.DeltaInvalid,), DELTA
    ),
    Parser(
        "miss-request",
        misses.MissRequest.decode,
        (misses.BadRequest,),
        misses.MissRequest(0, 3, 1).encode(),
    ),
    Parser("block-of-size-and-times", Extent.unpack, (IntegrityError,), Extent(5, 1, 2, 3).pack()),
    Parser("call-of-a-node", codec.decode_call, (IntegrityError,), codec.encode_call("open", [1])),
    Parser(
        "reply-of-home",
        lambda d: codec.decode_reply(d, list[int]),
        (IntegrityError, OSError),
        codec.encode_result([1, 2]),
    ),
    Parser(
        "hello-of-a-node",
        JoinRequest.unpack,
        (IntegrityError,),
        JoinRequest(VERSION, "papers", "a", "", "c", 0).pack(),
    ),
    Parser(
        "welcome-of-home",
        JoinReply.unpack,
        (IntegrityError, OSError),
        JoinReply(1, "t", 3.0, 0).pack(),
    ),
    Parser(
        "part-of-a-checkpoint", Part.from_bytes, (MediaDamaged,), Part(3, 9, 100, None).to_bytes()
    ),
    Parser("dav-list", davxml.read_listing, (davxml.BadDavXml,), DAV),
    Parser("dav-members", lambda d: davxml.read_members(d, quotas=False), (davxml.BadDavXml,), DAV),
    Parser(
        "s3-list",
        lambda d: objects.read_objects(d, encoded=True),
        (objects.BadObjectList,),
        OBJECTS,
    ),
    Parser(
        "s3-question",
        lambda d: objects.read_folder_question(d.decode("latin-1")),
        (),
        b"/bucket?list-type=2&prefix=a%2F&delimiter=%2F",
    ),
    Parser(
        "s3-signature",
        lambda d: sigv4.read_signature({"authorization": d.decode("latin-1")}),
        (),
        SIGNED,
    ),
    Parser(
        "spans-of-a-host",
        lambda d: HostSpans.from_json(table_of(d)),
        (RemoteProtocolError, KeyError, TypeError),
        b'{"host":"a","clock":{},"spans":[],"missing":0}',
    ),
    Parser(
        "error-of-a-peer",
        lambda d: ErrorReport.from_json(table_of(d)),
        (),
        b'{"code":"usage","what":"a","why":"b","fix":"c"}',
    ),
    Parser(
        "pixels-of-a-viewer",
        lambda d: PixelFormat.decode(d.ljust(16, b"\0")[:16]),
        (UnsupportedError,),
        NATIVE.encode(),
    ),
    Parser("dav-tree", davxml.split_tree, (davxml.BadDavXml,), DAV),
    Parser(
        "date-of-http",
        lambda d: read_date(d.decode("latin-1")),
        (),
        b"Sun, 29 Nov 2026 21:14:41 GMT",
    ),
    Parser("target-of-http", lambda d: split_target(d.decode("latin-1")), (), b"http://a:80/b?c"),
    Parser("piece-of-a-request", decode_piece, (RecordInvalid,), encode_piece(b"a", ends=True)),
    Parser(
        "freshness",
        lambda d: Freshness.from_json(table_of(d)),
        (ManifestInvalid,),
        b'{"epoch":1,"expires":null,"previous":null}',
    ),
    Parser(
        "carried-contract",
        lambda d: ContractSpec.from_json(table_of(d)),
        (ManifestInvalid,),
        json.dumps(CARRIED).encode(),
    ),
    Parser("context-of-files", Successors.decode, (SuccessorsInvalid,), Successors().encode()),
    Parser("layer-of-an-image", layers_of, (LayerInvalid, CapacityError), layer()),
]


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_any_bytes_give_a_value_or_the_documented_error(parser: Parser) -> None:
    check(parser, drawn)


def test_a_deep_hello_of_calls_is_malformed() -> None:
    """It ended the reader of a surrogate's calls with a RecursionError."""
    with pytest.raises(IntegrityError, match="malformed hello"):
        messages.CallHello.unpack(b"[" * 100_000)
