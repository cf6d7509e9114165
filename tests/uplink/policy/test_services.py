# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uplink.policy import (
    BadDescription,
    Outcome,
    RequestKind,
    built_in_descriptions,
    read_description,
)

WEBDAV = read_description("webdav", built_in_descriptions()["webdav"])


@pytest.mark.parametrize(
    ("method", "headers", "kind"),
    [
        ("GET", {}, RequestKind.READ),
        ("PROPFIND", {"depth": "1"}, RequestKind.LISTING),
        ("PROPFIND", {"depth": "infinity"}, RequestKind.OTHER),
        ("PROPFIND", {}, RequestKind.OTHER),
        ("PUT", {"content-type": "text/plain"}, RequestKind.UPLOAD),
        ("PUT", {"content-range": "bytes 0-1/4"}, RequestKind.CHANGE),
        ("PUT", {"if": "(<urn:uuid:1>)"}, RequestKind.CHANGE),
        ("MKCOL", {}, RequestKind.CHANGE),
        ("OPTIONS", {}, RequestKind.OTHER),
    ],
)
def test_what_requests_of_webdav_mean(
    method: str, headers: dict[str, str], kind: RequestKind
) -> None:
    assert WEBDAV.kind(method, headers) is kind


@pytest.mark.parametrize(
    ("method", "query", "kind"),
    [
        ("GET", "", RequestKind.READ),
        ("GET", "x-id=GetObject", RequestKind.READ),
        ("GET", "list-type=2&prefix=a", RequestKind.LISTING),
        ("GET", "prefix=a&list-type=2", RequestKind.LISTING),
        ("GET", "acl", RequestKind.OTHER),
        ("GET", "X-Amz-Signature=0", RequestKind.OTHER),
        ("PUT", "", RequestKind.UPLOAD),
        ("PUT", "partNumber=1&uploadId=2", RequestKind.CHANGE),
        ("PUT", "tagging", RequestKind.CHANGE),
        ("POST", "delete", RequestKind.CHANGE),
    ],
)
def test_what_requests_of_s3_mean(method: str, query: str, kind: RequestKind) -> None:
    s3 = read_description("s3", built_in_descriptions()["s3"])
    assert s3.kind(method, {}, query) is kind
    assert s3.kind("PUT", {"x-amz-copy-source": "/a/b"}, "") is RequestKind.CHANGE
    assert (s3.waits, s3.steps) == (45, ())


def test_what_answers_mean() -> None:
    (step,) = WEBDAV.steps
    wanted = {
        201: Outcome.DONE,
        412: Outcome.CONFLICT,
        401: Outcome.ACCESS,
        503: Outcome.LATER,
        599: Outcome.LATER,
        409: Outcome.REFUSED,
    }
    assert {status: WEBDAV.outcome(step, status) for status in wanted} == wanted


TWO_STEPS = """
version = 1
[[step]]
method = "POST"
target = "/begin?name={path}"
done = [200]
take = { session = "json:upload.id", key = "header:X-Key" }
[[step]]
method = "PUT"
target = "/sessions/{session}"
headers = { X-Key = "{key}" }
content = true
done = [200]
"""


def test_what_one_step_took_the_next_one_has() -> None:
    first, second = read_description("x", TWO_STEPS).steps
    assert first.filled({"path": "/a"})[0] == "/begin?name=/a"
    taken = first.taken({"x-key": "k"}, b'{"upload": {"id": "7"}}')
    assert second.filled(taken) == ("/sessions/7", {"X-Key": "k"})
    with pytest.raises(BadDescription):
        first.taken({"x-key": "k"}, b"[]")
    with pytest.raises(BadDescription):
        first.taken({"x-key": "k"}, b'{"upload": {"id": "7\\r\\nX: y"}}')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version = 2",
        "version = 1\nunknown = 1",
        "version = 1\nfresh = -1",
        "version = 1\nlisting = 'soap'",
        "version = 1\n[[request]]\nkind = 'magic'",
        "version = 1\n[[request]]\nkind = 'read'\nheaders = { a = '(' }",
        "version = 1\n[[step]]\nmethod = 'put'\ndone = [200]",
        "version = 1\n[[step]]\nmethod = 'PUT'",
        "version = 1\n[[step]]\nmethod = 'PUT'\ndone = [99]",
        "version = 1\n[[step]]\nmethod = 'PUT'\ndone = [200]\ntake = { a = 'cookie:x' }",
        "version = 1\n[outcomes]\ndone = [200]",
    ],
)
def test_what_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(BadDescription):
        read_description("x", text)


@given(st.text(max_size=300))
def test_nothing_else_comes_of_any_text(text: str) -> None:
    with contextlib.suppress(BadDescription):
        assert read_description("x", "version = 1\n" + text).name == "x"
