# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are held, as programs of their account read and list them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import BinaryIO

from uplink.gateway.flusher import held_etag
from uplink.policy import (
    DavEntry,
    Upload,
    edit_listing,
    failed_condition,
    plain,
    read_date,
    wanted_range,
)
from wire import HttpExchange

PIECE = 1 << 18
FORM = "application/xml; charset=utf-8"


def read_held(exchange: HttpExchange, upload: Upload, body: Path) -> None:
    """Answer GET or HEAD with what was uploaded. Raises OSError where it is gone meanwhile."""
    headers = [
        ("ETag", held_etag(upload)),
        ("Last-Modified", formatdate(upload.accepted, usegmt=True)),
        ("Content-Type", _content_type(upload)),
        ("Accept-Ranges", "bytes"),
    ]
    give_file(exchange, exchange.named, headers, upload.size, lambda: body.open("rb"))


def give_file(
    exchange: HttpExchange,
    asked: Mapping[str, str],
    headers: list[tuple[str, str]],
    size: int,
    body: Callable[[], BinaryIO],
) -> None:
    """Answer GET or HEAD with a file, or what its conditions and its range demand (RFC 9110).

    asked: headers of the request, with etags as `headers` has them. headers: of the file. body:
    opens the content, with its errors
    """
    named = {name.lower(): value for name, value in headers}
    etag, modified = named.get("etag", ""), read_date(named.get("last-modified"))
    status = failed_condition(exchange.method, asked, etag, modified)
    if status is not None:
        exchange.answer(status, [(k, v) for k, v in headers if k.lower() in _OF_304])
        return
    wanted = wanted_range(exchange.method, asked, size, etag, modified)
    if isinstance(wanted, int):
        exchange.answer(wanted, [("Content-Range", f"bytes */{size}")])
        return
    bare = [(k, v) for k, v in headers if k.lower() != "content-length"]
    if exchange.method == "HEAD":
        exchange.answer(200, [*bare, ("Content-Length", str(size))])
        return
    span = range(size) if wanted is None else wanted
    bare.append(("Content-Length", str(len(span))))
    if wanted is not None:
        bare.append(("Content-Range", f"bytes {span.start}-{span.stop - 1}/{size}"))
    exchange.answer(200 if wanted is None else 206, bare, _pieces(body(), span))


_OF_304 = {"cache-control", "content-location", "date", "etag", "expires", "last-modified", "vary"}


def _pieces(file: BinaryIO, span: range) -> Iterator[bytes]:
    with file:
        file.seek(span.start)
        left = len(span)
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield piece


def list_held(
    listing: bytes | None, question: bytes, folder: str, held: list[Upload], prefix: str
) -> bytes:
    """A list of properties with the files that are held directly in the folder, or are it.

    prefix: of addresses, before the path. Raises BadDavXml.
    """
    here = plain(folder)
    entries = [
        DavEntry(
            path=prefix + upload.path.partition("?")[0],
            etag=held_etag(upload),
            size=upload.size,
            modified=upload.accepted,
            content_type=_content_type(upload),
        )
        for upload in held
        if here in (plain(upload.path), plain(upload.path).rpartition("/")[0])
    ]
    return edit_listing(listing, question, entries)


def held_headers(named: Mapping[str, str], headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of a request that go along with its upload later: nothing that is about the connection,
    the moment, or who asks."""
    dropped = {
        *("authorization", "cookie", "connection", "host", "expect", "content-length", "date"),
        *("transfer-encoding", "if-match", "if-none-match", "if-modified-since", "te", "origin"),
        *("if-unmodified-since", "keep-alive", "proxy-connection", "accept-encoding", "referer"),
        *(word.strip().lower() for word in named.get("connection", "").split(",")),
    }
    return [(name, value) for name, value in headers if name.lower() not in dropped]


def _content_type(upload: Upload) -> str:
    named = {name.lower(): value for name, value in upload.headers}
    return named.get("content-type", "application/octet-stream")
