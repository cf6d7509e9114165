# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""S3's lists of objects (ListObjectsV2), taken apart and put together.

S3 has no folders. A program that walks through `photos/2026/` asks for `prefix=photos/` with
`delimiter=/`, then for `prefix=photos/2026/`. A list without a delimiter has all of it at once.
What comes from the service is hostile: a document with a type declaration is refused.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as Tree
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode

from satchel.errors import IntegrityError

PAGE = 1000
"""Entries of a list at most, as S3 has it."""

_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_KNOWN = frozenset({"list-type", "prefix", "delimiter", "encoding-type", "max-keys", "fetch-owner"})


class BadObjectList(IntegrityError):
    """The list of objects is malformed or too long."""


@dataclass(frozen=True)
class FolderQuestion:
    """What is directly in a folder. bucket: the path asked at, without a slash at the end; prefix:
    decoded; encoded: whether keys are to be percent-encoded; rest: other parameters"""

    bucket: str
    prefix: str
    encoded: bool
    most: int
    rest: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> str:
        """As a path, without a slash at the end."""
        return f"{self.bucket}/{self.prefix}".rstrip("/")

    def of(self, folder: str) -> FolderQuestion:
        """The same of another folder of the bucket."""
        prefix = folder.removeprefix(self.bucket).strip("/")
        return replace(self, prefix=f"{prefix}/" if prefix else "")

    def tree(self, token: str = "") -> str:
        """The query that asks for all below the folder, from the token on; parameters in order, as
        a signature needs them."""
        named = {"list-type": "2", "prefix": self.prefix, "max-keys": str(PAGE), **dict(self.rest)}
        named |= {"encoding-type": "url"} if self.encoded else {}
        named |= {"continuation-token": token} if token else {}
        return urlencode(sorted(named.items()), quote_via=quote, safe="-_.~")


@dataclass(frozen=True)
class ObjectPage:
    """objects: keys, decoded, and what the list says of each; token: of the next page, empty where
    there is none; name: the bucket's"""

    objects: tuple[tuple[str, bytes], ...]
    token: str
    name: str


def read_folder_question(path: str) -> FolderQuestion | None:
    """path: of a request, with its query. None where it asks for something else, or goes on with a
    list that was begun."""
    place, _, query = path.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    named = dict(pairs)
    most = named.get("max-keys", str(PAGE))
    if (
        len(named) != len(pairs)
        or not named.keys() <= _KNOWN
        or named.get("list-type") != "2"
        or named.get("delimiter") != "/"
        or named.get("encoding-type", "url") != "url"
        or not re.fullmatch(r"\d{1,6}", most)
    ):
        return None
    prefix = named.get("prefix", "")
    if prefix and not prefix.endswith("/"):
        return None
    rest = (("fetch-owner", named["fetch-owner"]),) if "fetch-owner" in named else ()
    return FolderQuestion(
        place.rstrip("/"), prefix, "encoding-type" in named, min(PAGE, int(most)), rest
    )


def read_objects(body: bytes, *, encoded: bool) -> ObjectPage:
    """A page of a list without a delimiter. Raises BadObjectList."""
    if re.search(rb"<!DOCTYPE", body, re.IGNORECASE) or b"<\x00!" in body:
        raise BadObjectList("cannot read a list of objects", why="it declares a type")
    try:
        root = Tree.fromstring(body)
    except (Tree.ParseError, ValueError, LookupError) as error:
        raise BadObjectList("cannot read a list of objects", why=str(error)) from error
    Tree.register_namespace("", _SPACE)
    space = f"{{{_SPACE}}}" if root.tag.startswith("{") else ""
    if root.tag != f"{space}ListBucketResult":
        raise BadObjectList("cannot read a list of objects", why=f"it is a {root.tag}"[:100])
    objects = []
    for each in root.findall(f"{space}Contents"):
        key = each.findtext(f"{space}Key") or ""
        objects.append((unquote_plus(key) if encoded else key, _text(each)))
    cut = root.findtext(f"{space}IsTruncated") == "true"
    token = (root.findtext(f"{space}NextContinuationToken") or "") if cut else ""
    if cut and not token:
        raise BadObjectList("cannot read a list of objects", why="it is cut, and has no token")
    return ObjectPage(tuple(objects), token, root.findtext(f"{space}Name") or "")


def folder_lists(
    question: FolderQuestion, name: str, objects: Iterable[tuple[str, bytes]]
) -> dict[str, bytes]:
    """The lists of the question's folder and of all below it, by prefix, as the service answers
    each; those that take more than a page are left out. objects: all below the folder."""
    entries: dict[str, dict[str, bytes]] = {question.prefix: {}}
    for key, told in objects:
        if not key.startswith(question.prefix):
            continue
        at = len(question.prefix)
        while (end := key.find("/", at) + 1) > 0:
            child = key[:end]
            entries[key[:at]][child] = b""
            entries.setdefault(child, {})
            at = end
        entries[key[:at]][key if at < len(key) else key + "\0"] = told
    return {
        prefix: _list(question, name, prefix, found)
        for prefix, found in entries.items()
        if len(found) <= question.most
    }


def _list(question: FolderQuestion, name: str, prefix: str, entries: Mapping[str, bytes]) -> bytes:
    def key(text: str) -> str:
        return quote(text, safe="/-_.~") if question.encoded else escape(text, quote=False)

    contents = b"".join(told for _, told in sorted(entries.items()) if told)
    folders = "".join(
        f"<CommonPrefixes><Prefix>{key(child)}</Prefix></CommonPrefixes>"
        for child, told in sorted(entries.items())
        if not told
    )
    head = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="{_SPACE}">'
        f"<Name>{escape(name)}</Name><Prefix>{key(prefix)}</Prefix><Delimiter>/</Delimiter>"
        f"<MaxKeys>{question.most}</MaxKeys><KeyCount>{len(entries)}</KeyCount>"
        f"<IsTruncated>false</IsTruncated>"
        f"{'<EncodingType>url</EncodingType>' if question.encoded else ''}"
    )
    return head.encode() + contents + folders.encode() + b"</ListBucketResult>"


def _text(element: Tree.Element) -> bytes:
    element.tail = None
    text: bytes = Tree.tostring(element, encoding="utf-8")
    return text.replace(f' xmlns="{_SPACE}"'.encode(), b"")
