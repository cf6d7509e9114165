# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uplink.policy import (
    BadDavXml,
    Entry,
    ask_for_etags,
    edit_listing,
    hrefs_of,
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


def test_what_a_list_has() -> None:
    assert read_listing(LISTING) == [
        Entry("/dav/a%20%26b", folder=True),
        Entry("/dav/a/x&y", etag='"e"', size=7),
    ]


def test_addresses_are_changed_and_nothing_else() -> None:
    changed = rewrite_hrefs(LISTING, lambda address: address.replace("/dav/", "/cloud/"))
    assert hrefs_of(changed) == ["/cloud/a%20%26b/", "https://cloud.example/cloud/a/x&y"]
    assert changed.replace(b"/cloud/", b"/dav/") == LISTING
    assert rewrite_hrefs(LISTING, lambda address: address) is not None


def test_a_held_file_is_listed_with_what_was_asked_for() -> None:
    held = Entry("/dav/a/new%20file", etag='"held"', size=3)
    entries = read_listing(edit_listing(LISTING, QUESTION, [held]))
    assert entries[2] == Entry("/dav/a/new%20file", etag='"held"', size=3)
    text = edit_listing(None, QUESTION, [held])
    assert b"displayname" not in text
    assert b"404 Not Found" in text  # for the property that we do not know


def test_a_held_file_takes_the_place_of_what_the_service_has() -> None:
    held = Entry("/dav/a/x%26y", etag='"held"', size=3)
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
    ask_for_etags(body)
    try:
        read_listing(b"<x>" + body + b"</x>")
    except BadDavXml:
        return
