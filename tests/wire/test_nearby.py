# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The bytes of a surrogate's announcement, and its reader."""

import socket

import pytest
from zeroconf import ServiceInfo

from wire.nearby import SERVICE, Announcement, _info, _seen

KEYS = tuple(f"SHA256:{letter * 43}" for letter in "ABCDE")

CAFE = Announcement("cafe", 22, "0.2.0", ("kvm", "tcg"), 25, "free", KEYS[:2])

GOLDEN = (
    b"\x09txtvers=2\x0dversion=0.2.0\x0cruns=kvm,tcg\x07load=25\x0aprice=free\x6akeys="
    + KEYS[0].encode()
    + b","
    + KEYS[1].encode()
)


def heard(text: bytes, *addresses: str, scope: int | None = None) -> ServiceInfo:
    packed = [
        socket.inet_pton(socket.AF_INET6 if ":" in a else socket.AF_INET, a) for a in addresses
    ]
    return ServiceInfo(
        SERVICE, f"cafe.{SERVICE}", 22, addresses=packed, properties=text, interface_index=scope
    )


def test_the_bytes_of_version_2() -> None:
    info = _info(CAFE, ("192.0.2.7",))
    assert info.text == GOLDEN
    seen = _seen(heard(GOLDEN, "192.0.2.7"))
    assert seen is not None
    assert seen.announcement == CAFE
    assert seen.places == [("192.0.2.7", 22)]


def test_version_1_has_no_keys_and_a_later_one_is_ignored() -> None:
    seen = _seen(heard(b"\x0dversion=0.1.0\x08runs=kvm", "192.0.2.7"))
    assert seen is not None
    assert (seen.announcement.version, seen.announcement.keys) == ("0.1.0", ())
    assert _seen(heard(GOLDEN.replace(b"txtvers=2", b"txtvers=3"), "192.0.2.7")) is None


@pytest.mark.parametrize("word", ["SHA256:short", KEYS[0] + "A", "MD5:" + "a" * 43, ""])
def test_what_is_no_fingerprint_is_left_out(word: str) -> None:
    said = f"keys={word},{KEYS[3]}".encode()
    seen = _seen(heard(bytes([len(said)]) + said, "192.0.2.7"))
    assert seen is not None
    assert seen.announcement.keys == KEYS[3:4]


def test_addresses_of_both_families_the_most_usual_first() -> None:
    every = ["fe80::7", "2001:db8::7", "127.0.0.1", "::1", "192.0.2.7", "224.0.0.1", "0.0.0.0"]
    seen = _seen(heard(GOLDEN, *every))
    assert seen is not None
    assert seen.addresses == ("192.0.2.7", "2001:db8::7")
    seen = _seen(heard(GOLDEN, *every, scope=3))
    assert seen is not None
    assert seen.addresses == ("192.0.2.7", "2001:db8::7", "fe80::7%3")
    assert _seen(heard(GOLDEN, "127.0.0.1", "::1")) is None
    many = [f"192.0.2.{n}" for n in range(1, 100)]
    assert len((_seen(heard(GOLDEN, *many)) or seen).addresses) == 8
