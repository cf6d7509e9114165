# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are held, as programs of their account read and list them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from email.utils import formatdate
from pathlib import Path

from uplink.gateway.flusher import held_etag
from uplink.policy import DavEntry, Upload, edit_listing, plain
from wire import HttpExchange

PIECE = 1 << 18
FORM = "application/xml; charset=utf-8"


def read_held(exchange: HttpExchange, upload: Upload, body: Path) -> None:
    """Answer GET or HEAD with what was uploaded. Raises OSError where it is gone meanwhile."""
    etag = held_etag(upload)
    headers = [
        ("ETag", etag),
        ("Last-Modified", formatdate(upload.accepted, usegmt=True)),
        ("Content-Type", _content_type(upload)),
    ]
    if etag in exchange.named.get("if-none-match", ""):
        exchange.answer(304, headers)
        return
    file = body.open("rb")

    def pieces() -> Iterator[bytes]:
        with file:
            while piece := file.read(PIECE):
                yield piece

    headers.append(("Content-Length", str(upload.size)))
    if exchange.method == "HEAD":
        file.close()
        exchange.answer(200, headers)
    else:
        exchange.answer(200, headers, pieces())


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
