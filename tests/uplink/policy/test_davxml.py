# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uplink.policy import (
    BadDavXml,
    DavEntry,
    ask_for_etags,
    edit_listing,
    read_listing,
    rewrite_hrefs,
)

LISTING = b"""<?xml version="1.0"?><d:multistatus xmlns:d="DAV:"><d:response>
<d:href>/dav/a%20%26b/</d:href><d:propstat><d:prop><d:resourcetype><d:collection/></d:resourcetype>
</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response><d:response>
<d:href> https://cloud.example/dav/a/x&amp;y </d:href><d:propstat><d:prop><d:resourcetype/>
<d:getetag>"e"</d:getetag><d:getcontentlength>7</d:getcontentlength></d:prop>
<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"""

QUESTION = b'<propfind xmlns="DAV:"><prop><getetag/><getcontentlength/><quota/></prop></propfind>'


def addresses_in(body: bytes) -> list[str]:
    found: list[str] = []
    rewrite_hrefs(body, lambda address: found.append(address) or address)  # type: ignore[func-returns-value]
    return found


def test_what_a_list_has() -> None:
    assert read_listing(LISTING) == [
        DavEntry("/dav/a%20%26b", folder=True),
        DavEntry("/dav/a/x&y", etag='"e"', size=7),
    ]


def test_addresses_are_changed_and_nothing_else() -> None:
    changed = rewrite_hrefs(LISTING, lambda address: address.replace("/dav/", "/cloud/"))
    assert addresses_in(changed) == ["/cloud/a%20%26b/", "https://cloud.example/cloud/a/x&y"]
    assert changed.replace(b"/cloud/", b"/dav/") == LISTING
    assert rewrite_hrefs(LISTING, lambda address: address) is not None


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("<href a='>'> /dav/ü&amp;<!--x--></href >", None),
        ("<href a='>'> /dav/ü&amp; </href >", "<href a='>'> /cloud/ü&amp; </href >"),
        ("<x><!--<href>/dav/</href>--><![CDATA[<href>/dav/</href>]]></x>", None),
        ("<x a='<href>'>/dav/</x>", None),
        ('<!DOCTYPE x [<!ENTITY d "/dav/">]><href>&d;</href>', None),
        ("<href>/dav/</href><x>", "<href>/cloud/</href><x>"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-16be"])
def test_an_address_is_the_text_of_an_element(
    body: str, changed: str | None, encoding: str
) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding}"?>'
    found = rewrite_hrefs(
        (declared + body).encode(encoding), lambda a: a.replace("/dav/", "/cloud/")
    )
    assert found == (declared + (changed or body)).encode(encoding)


def test_addresses_in_a_long_list_are_found_in_linear_time() -> None:
    long = b"<x>" + 100_000 * b"<href>/dav/a</href >\n" + b"</x>"
    changed = rewrite_hrefs(long, lambda address: address.replace("/dav/", "/cloud/"))
    assert changed == long.replace(b"/dav/", b"/cloud/")
    spaces = b"<href>" + 2_000_000 * b" "
    assert rewrite_hrefs(spaces, str.upper) == spaces


def test_a_held_file_is_listed_with_what_was_asked_for() -> None:
    held = DavEntry("/dav/a/new%20file", etag='"held"', size=3)
    entries = read_listing(edit_listing(LISTING, QUESTION, [held]))
    assert entries[2] == DavEntry("/dav/a/new%20file", etag='"held"', size=3)
    text = edit_listing(None, QUESTION, [held])
    assert b"displayname" not in text
    assert b"404 Not Found" in text  # for the property that we do not know


def test_a_held_file_takes_the_place_of_what_the_service_has() -> None:
    held = DavEntry("/dav/a/x%26y", etag='"held"', size=3)
    entries = read_listing(edit_listing(LISTING, b"", [held]))
    assert [entry.etag for entry in entries] == ["", '"held"']


def test_a_question_for_properties_asks_for_etags_too() -> None:
    question = b'<D:propfind xmlns:D="DAV:"><D:prop><D:x/></D:prop></D:propfind>'
    assert b'<getetag xmlns="DAV:"/></D:prop>' in ask_for_etags(question)
    assert ask_for_etags(QUESTION) == QUESTION
    assert ask_for_etags(b"") == b""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<a>",
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>',
        '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x><x/>'.encode("utf-16"),
        b'<?xml version="1.0" encoding="nonsense"?><x/>',
    ],
)
def test_what_nobody_should_read_is_refused(body: bytes) -> None:
    with pytest.raises(BadDavXml):
        read_listing(body)


@given(st.binary(max_size=200))
def test_nothing_else_comes_of_any_bytes(body: bytes) -> None:
    rewrite_hrefs(body, str.upper)
    rewrite_hrefs(b"<href>" + body + b"</href>", str.upper)
    ask_for_etags(body)
    try:
        read_listing(b"<x>" + body + b"</x>")
    except BadDavXml:
        return
