# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""WebDAV's lists of properties (RFC 4918, sections 9.1 and 14.16), changed on the way through.

The addresses in them are the service's. Uplink changes them to those at which the program asked.
It lists held files as if the service had them. Both sides are hostile: a document that declares a
type is refused, because it could declare entities.
"""

from __future__ import annotations

import contextlib
import re
import xml.etree.ElementTree as Tree
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape, unescape
from urllib.parse import unquote, urlsplit
from xml.parsers import expat

from satchel.errors import IntegrityError
from satchel.targets import normal_path

_PROP_END = re.compile(rb"(</(?:[\w.-]+:)?prop\s*>)")
_DAV = "{DAV:}"


class BadDavXml(IntegrityError):
    """The list of properties is malformed or dangerous to parse."""


@dataclass(frozen=True)
class DavEntry:
    """A file or a folder in a list. path: the address's path, percent-encoded, without its last
    slash; size, etag: where the list has them, but no etag of a locked file; modified: seconds
    since 1970, of what is held"""

    path: str
    folder: bool = False
    etag: str = ""
    size: int | None = None
    modified: float = 0.0
    content_type: str = ""


def rewrite_hrefs(body: bytes, change: Callable[[str], str]) -> bytes:
    """Return the document with every address changed, and nothing else of it. Addresses stay after
    an error in the XML. One with other markup in it, such as CDATA, may stay."""
    parser, found = expat.ParserCreate(), list[tuple[int, int]]()
    text: dict[str, int] = {}  # the offset at which the text after the last markup begins

    def end(name: str) -> None:
        if text and name.rpartition(":")[2].lower() == "href":
            found.append((text["begin"], parser.CurrentByteIndex))
        text.clear()

    parser.CharacterDataHandler = lambda _: text.setdefault("begin", parser.CurrentByteIndex)
    parser.StartElementHandler, parser.EndElementHandler = lambda *_: text.clear(), end
    parser.DefaultHandler = lambda _: text.clear()  # other markup; keeps entities unexpanded
    with contextlib.suppress(expat.ExpatError, ValueError, LookupError):
        parser.Parse(body, True)
    zero, pieces, done = body[:4].find(0), [], 0
    encoding = "utf-8" if zero < 0 else ("utf-16-be", "utf-16-le")[zero % 2]
    for begin, after in found:
        written = unescape(body[begin:after].decode(encoding, "surrogateescape"))
        address = written.strip()
        if (changed := change(address)) != address:
            new = escape(written.replace(address, changed, 1), quote=False)
            pieces += [body[done:begin], new.encode(encoding, "surrogateescape")]
            done = after
    return b"".join([*pieces, body[done:]])


def ask_for_etags(body: bytes) -> bytes:
    """A question for properties that asks for etags, too. One for all properties has them."""
    return _ask_for(body, b"getetag")


def ask_for_tokens(body: bytes) -> bytes:
    """A question for properties that asks for tokens of synchronisation (RFC 6578, section 4), too,
    and for etags. One for all properties has no tokens, and becomes one that names a few."""
    if not _PROP_END.search(body):
        body = _FEW_PROPERTIES
    return _ask_for(ask_for_etags(body), b"sync-token")


def sync_question(body: bytes, token: str, level: str) -> bytes:
    """A question for what has changed since the token (RFC 6578, section 3.2).

    body: of a question for properties, which says what is wanted of what has changed; token: empty
    for everything; level: `1` or `infinite`. Raises BadDavXml.
    """
    root = Tree.Element(f"{_DAV}sync-collection")
    Tree.SubElement(root, f"{_DAV}sync-token").text = token
    Tree.SubElement(root, f"{_DAV}sync-level").text = level
    wanted = _parse(ask_for_etags(body) if _PROP_END.search(body) else _FEW_PROPERTIES)
    prop = wanted.find(f"{_DAV}prop")
    if prop is None:
        raise BadDavXml("cannot ask for the changes", why="the question names no properties")
    root.append(prop)
    return _text_of(root, declared=True)


def read_listing(body: bytes) -> list[DavEntry]:
    """What a list has. Raises BadDavXml."""
    return list(_entries(_parse(body)))


@dataclass(frozen=True)
class DavMember:
    """A file or a folder as a service told of it. path: as `plain` makes it; text: the
    whole of what was told; gone: it is not there; token: of synchronisation"""

    path: str
    text: bytes
    folder: bool = False
    etag: str = ""
    token: str = ""
    gone: bool = False


def read_members(body: bytes, *, quotas: bool = True) -> tuple[list[DavMember], str]:
    """What a list has, and the token of its state where it is an answer to `sync_question`. quotas:
    with the room that folders have. Raises BadDavXml; also for such an answer that is not whole."""
    root = _parse(body)
    members = []
    for response in root.findall(f"{_DAV}response"):
        status = response.findtext(f"{_DAV}status") or ""
        if " 507" in status:
            raise BadDavXml("a list is not whole", why="the service has cut it")
        if not quotas:
            _drop_quotas(response)
        entry = next(_entries(response), None)
        token = response.findtext(f"{_DAV}propstat/{_DAV}prop/{_DAV}sync-token") or ""
        members.append(
            DavMember(
                path=_plain(response.findtext(f"{_DAV}href") or ""),
                text=_text_of(response),
                folder=bool(entry and entry.folder),
                etag=entry.etag if entry else "",
                token=token.strip(),
                gone=entry is None,
            )
        )
    return members, (root.findtext(f"{_DAV}sync-token") or "").strip()


def _drop_quotas(response: Tree.Element) -> None:
    for prop in response.iterfind(f"{_DAV}propstat/{_DAV}prop"):
        for name in ("quota-available-bytes", "quota-used-bytes"):
            for each in prop.findall(_DAV + name):
                prop.remove(each)


def gone(path: str) -> bytes:
    """What tells in an answer to `sync_question` that nothing is there any more. path:
    as `plain` makes it"""
    response = Tree.Element(f"{_DAV}response")
    Tree.SubElement(response, f"{_DAV}href").text = path
    Tree.SubElement(response, f"{_DAV}status").text = "HTTP/1.1 404 Not Found"
    return _text_of(response)


def join_members(texts: Iterable[bytes], token: str = "") -> bytes:
    """A list of these, as `read_members` reads it."""
    end = f"<D:sync-token>{escape(token)}</D:sync-token>".encode() if token else b""
    return b'<D:multistatus xmlns:D="DAV:">' + b"".join(texts) + end + b"</D:multistatus>"


def split_tree(body: bytes) -> dict[str, bytes]:
    """A list of a whole tree, as the lists of depth 1 of its folders: by their paths,
    as `plain` makes them. Raises BadDavXml."""
    members: dict[str, list[Tree.Element]] = {}
    folders = {_plain(entry.path) for entry in read_listing(body) if entry.folder}
    for response in _parse(body).iter(f"{_DAV}response"):
        path = _plain(response.findtext(f"{_DAV}href") or "")
        if path in folders:
            members.setdefault(path, []).insert(0, response)
        if (parent := path.rpartition("/")[0]) in folders:
            members.setdefault(parent, []).append(response)
    lists = {}
    for path, responses in members.items():
        root = Tree.Element(f"{_DAV}multistatus")
        root.extend(responses)
        lists[path] = _text_of(root, declared=True)
    return lists


def edit_listing(body: bytes | None, question: bytes, held: Iterable[DavEntry]) -> bytes:
    """The list with files that are held: in the place of what it has of them, or behind it.

    body: None for a list of them alone; question: the request's body, which says what properties
    are wanted. Raises BadDavXml.
    """
    root = Tree.Element(f"{_DAV}multistatus") if body is None else _parse(body)
    wanted = _wanted(question)
    for entry in held:
        for response in root.findall(f"{_DAV}response"):
            if _plain(response.findtext(f"{_DAV}href") or "") == _plain(entry.path):
                root.remove(response)
        root.append(_response(entry, wanted))
    return _text_of(root, declared=True)


_FEW_PROPERTIES = (
    b'<propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/>'
    b"<getcontenttype/><creationdate/><displayname/></prop></propfind>"
)


def _ask_for(body: bytes, name: bytes) -> bytes:
    if name in body or not _PROP_END.search(body):
        return body
    return _PROP_END.sub(b"<" + name + rb' xmlns="DAV:"/>\1', body, count=1)


def _parse(body: bytes) -> Tree.Element:
    if re.search(rb"<!DOCTYPE", body, re.IGNORECASE) or b"<\x00!" in body:
        raise BadDavXml("cannot read a list of properties", why="it declares a type")
    try:
        return Tree.fromstring(body)
    except (Tree.ParseError, ValueError, LookupError) as error:
        raise BadDavXml("cannot read a list of properties", why=str(error)) from error


def _text_of(element: Tree.Element, *, declared: bool = False) -> bytes:
    Tree.register_namespace("D", "DAV:")
    return bytes(Tree.tostring(element, encoding="utf-8", xml_declaration=declared))


def _entries(root: Tree.Element) -> Iterator[DavEntry]:
    for response in root.iter(f"{_DAV}response"):
        found: dict[str, Tree.Element] = {}
        for propstat in response.findall(f"{_DAV}propstat"):
            if " 200" in (propstat.findtext(f"{_DAV}status") or ""):
                found |= {each.tag: each for each in propstat.findall(f"{_DAV}prop/*")}
        if " 404" in (response.findtext(f"{_DAV}status") or ""):
            continue
        kind, locks = found.get(f"{_DAV}resourcetype"), found.get(f"{_DAV}lockdiscovery")
        locked = locks is not None and locks.find(f"{_DAV}activelock") is not None
        texts = {tag: (each.text or "").strip() for tag, each in found.items()}
        size = texts.get(f"{_DAV}getcontentlength", "")
        yield DavEntry(
            path=urlsplit((response.findtext(f"{_DAV}href") or "").strip()).path.rstrip("/"),
            folder=kind is not None and kind.find(f"{_DAV}collection") is not None,
            etag="" if locked else _quoted(texts.get(f"{_DAV}getetag", "")),
            size=int(size) if re.fullmatch(r"\d{1,18}", size) else None,
        )


def _quoted(etag: str) -> str:
    """Some services write the property without the quotes that belong to an etag (RFC 4918,
    section 15.6)."""
    return etag if not etag or etag.endswith('"') else f'"{etag}"'


def _plain(address: str) -> str:
    return normal_path(urlsplit(address.strip()).path).rstrip("/")


def _wanted(question: bytes) -> list[str] | None:
    """Return the tags of the wanted properties; None for all."""
    prop = _parse(question).find(f"{_DAV}prop") if question.strip() else None
    return None if prop is None else [each.tag for each in prop]


def _response(entry: DavEntry, wanted: list[str] | None) -> Tree.Element:
    moment = datetime.fromtimestamp(entry.modified, UTC)
    values = {
        "resourcetype": "",
        "getcontentlength": str(entry.size or 0),
        "getlastmodified": format_datetime(moment, usegmt=True),
        "creationdate": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "getetag": entry.etag,
        "getcontenttype": entry.content_type or "application/octet-stream",
        "displayname": unquote(entry.path).rpartition("/")[2],
    }
    known = {_DAV + name: text for name, text in values.items()}
    tags = list(known) if wanted is None else wanted
    response = Tree.Element(f"{_DAV}response")
    Tree.SubElement(response, f"{_DAV}href").text = entry.path
    for there, status in ((True, "HTTP/1.1 200 OK"), (False, "HTTP/1.1 404 Not Found")):
        some = [tag for tag in tags if (tag in known) is there]
        if some or there:
            propstat = Tree.SubElement(response, f"{_DAV}propstat")
            prop = Tree.SubElement(propstat, f"{_DAV}prop")
            for tag in some:
                Tree.SubElement(prop, tag).text = known.get(tag) or None
            Tree.SubElement(propstat, f"{_DAV}status").text = status
    return response
