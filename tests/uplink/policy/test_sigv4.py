# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The examples of Amazon's reference, whose signatures are printed there."""

from dataclasses import replace
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uplink.policy import Signature, read_signature, signed_headers, verified
from uplink.policy.sigv4 import EMPTY_SHA256, VALID_SECONDS

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
HOST, NOON = "examplebucket.s3.amazonaws.com", 1369353600.0

EXAMPLES = {
    "get": (
        "GET",
        "/test.txt",
        {"range": "bytes=0-9"},
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    "put": (
        "PUT",
        "/test%24file.text",
        {
            "date": "Fri, 24 May 2013 00:00:00 GMT",
            "x-amz-storage-class": "REDUCED_REDUNDANCY",
            "x-amz-content-sha256": (
                "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
            ),
        },
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    "lifecycle": (
        "GET",
        "/?lifecycle",
        {},
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    "list": (
        "GET",
        "/?max-keys=2&prefix=J",
        {},
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
}


def example(name: str) -> tuple[Signature, str, str, dict[str, str]]:
    method, target, more, value = EXAMPLES[name]
    sent = {"host": HOST, "x-amz-date": "20130524T000000Z", "x-amz-content-sha256": EMPTY_SHA256}
    sent |= more
    scope = f"{KEY}/20130524/us-east-1/s3/aws4_request"
    names = ";".join(sorted(sent))
    sent["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={value}"
    )
    signature = read_signature(sent)
    assert signature is not None
    return signature, method, target, sent


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_printed_is_true_and_nothing_else(name: str) -> None:
    signature, method, target, sent = example(name)
    assert verified(signature, SECRET, method, target, sent)
    assert not verified(signature, SECRET + "x", method, target, sent)
    assert not verified(signature, SECRET, "DELETE", target, sent)
    assert not verified(signature, SECRET, method, target + "x", sent)
    assert not verified(signature, SECRET, method, target, sent | {"host": "other.example"})
    unsigned = replace(signature, headers=tuple(n for n in signature.headers if n != "host"))
    assert not verified(unsigned, SECRET, method, target, sent)


def test_a_signature_is_good_for_15_minutes() -> None:
    signature = example("get")[0]
    assert signature.left(NOON) == VALID_SECONDS
    assert signature.left(NOON + 901) < 0
    assert replace(signature, moment="yesterday").left(NOON) == 0


@given(key=st.text("ab /+%&=ü", max_size=9), token=st.text("a+/=", max_size=5))
def test_what_is_signed_here_is_verified(key: str, token: str) -> None:
    target = f"/{quote(key)}?{urlencode({'prefix': key, 'token': token}, quote_via=quote)}"
    sent = signed_headers(example("get")[0], SECRET, target, HOST, NOON)
    named = {name.lower(): value for name, value in sent.items()} | {"host": HOST}
    signature = read_signature(named)
    assert signature is not None
    assert (signature.key, signature.left(NOON)) == (KEY, VALID_SECONDS)
    assert verified(signature, SECRET, "GET", target, named)


@given(text=st.text(max_size=200))
def test_no_header_is_taken_for_a_signature(text: str) -> None:
    assert read_signature({"authorization": text}) is None
