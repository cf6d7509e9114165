# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that RFC 9112 and 9110 allow, forbid, or leave to a server, and requests that smuggle
another one. Each local port of HTTP has to pass all of them.

No corpus of these is packaged. The kinds are those of the public ones (h1spec, http-garden, and
llhttp's tests); the bytes here follow the rules.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass

REFUSED, TAKEN, EITHER = "refused", "taken", "either"

END = b"0\r\n\r\n"
"""The last chunk."""

SMUGGLED = b"GET {root}smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n"


@dataclass(frozen=True)
class Rule:
    """request: its bytes, with {root} and {host} to be filled in. outcome: REFUSED by a status and
    the end of the connection, TAKEN once by the service, or EITHER"""

    section: str
    request: bytes
    outcome: str


def _get(*lines: bytes, target: bytes = b"{root}a", version: bytes = b"HTTP/1.1") -> bytes:
    return b"\r\n".join([b"GET " + target + b" " + version, b"Host: {host}", *lines, b"", b""])


def _post(body: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join([b"POST {root}a HTTP/1.1", b"Host: {host}", *lines, b"", b""]) + body


def _chunked(body: bytes, *lines: bytes) -> bytes:
    return _post(body, b"Transfer-Encoding: chunked", *lines)


RULES = {
    "plain": Rule("9112 3", _get(), TAKEN),
    "empty line before": Rule("9112 2.2", b"\r\n" + _get(), TAKEN),
    "tabs around a value": Rule("9112 5.1", _get(b"X:\t y \t"), TAKEN),
    "empty value": Rule("9110 5.5", _get(b"X:"), TAKEN),
    "latin-1 in a value": Rule("9110 5.5", _get(b"X: \xe9"), TAKEN),
    "HTTP/1.0": Rule("9112 2.3", _get(version=b"HTTP/1.0"), TAKEN),
    "body with a length": Rule("9112 6.2", _post(b"abc", b"Content-Length: 3"), TAKEN),
    "chunks": Rule("9112 7.1", _chunked(b"3\r\nabc\r\n0\r\n\r\n"), TAKEN),
    "chunk in capitals": Rule("9112 7.1", _chunked(b"A\r\n0123456789\r\n00\r\n\r\n"), TAKEN),
    "chunk extension": Rule("9112 7.1.1", _chunked(b'1;a="b"\r\nx\r\n0\r\n\r\n'), TAKEN),
    "trailer": Rule("9112 7.1.2", _chunked(b"0\r\nX: y\r\n\r\n"), TAKEN),
    "same length twice": Rule(
        "9112 6.3", _post(b"abc", b"Content-Length: 3", b"Content-Length: 3"), EITHER
    ),
    "bare lines": Rule("9112 2.2", _get().replace(b"\r\n", b"\n"), EITHER),
    "bell in a value": Rule("9110 5.5", _get(b"X: a\x07b"), EITHER),
    "version 1.2": Rule("9112 2.3", _get(version=b"HTTP/1.2"), EITHER),
    "folded": Rule("9112 5.2", _get(b"X: y", b" z"), EITHER),
    "fragment": Rule("9112 3.2", _get(target=b"{root}a#b"), EITHER),
    "bare CR in a value": Rule("9112 2.2", _get(b"X: a\rY: b"), REFUSED),
    "bare CR for a line": Rule("9112 2.2", _get().replace(b"\r\nHost", b"\rHost"), REFUSED),
    "NUL in a value": Rule("9110 5.5", _get(b"X: a\0b"), REFUSED),
    "NUL in a name": Rule("9110 5.1", _get(b"X\0: b"), REFUSED),
    "blank before a colon": Rule("9112 5.1", _get(b"X : y"), REFUSED),
    "blank before the first name": Rule(
        "9112 2.2", b"GET {root}a HTTP/1.1\r\n Host: {host}\r\n\r\n", REFUSED
    ),
    "name with brackets": Rule("9110 5.1", _get(b"X[]: y"), REFUSED),
    "no name": Rule("9110 5.1", _get(b": y"), REFUSED),
    "no colon": Rule("9112 5", _get(b"nothing"), REFUSED),
    "no version": Rule("9112 3", b"GET {root}a\r\nHost: {host}\r\n\r\n", REFUSED),
    "blank in a target": Rule("9112 3.2", _get(target=b"{root}a b"), REFUSED),
    "raw UTF-8 in a target": Rule("9112 3.2", _get(target=b"{root}\xc3\xbc"), REFUSED),
    "version 2": Rule("9112 2.3", _get(version=b"HTTP/2.0"), REFUSED),
    "version 9.9": Rule("9112 2.3", _get(version=b"HTTP/9.9"), REFUSED),
    "version in small letters": Rule("9112 2.3", _get(version=b"http/1.1"), REFUSED),
    "version of two digits": Rule("9112 2.3", _get(version=b"HTTP/1.10"), REFUSED),
    "method with a colon": Rule("9110 9.1", _get().replace(b"GET ", b"GE:T "), REFUSED),
    "no host": Rule("9112 3.2", b"GET {root}a HTTP/1.1\r\n\r\n", REFUSED),
    "two hosts": Rule("9112 3.2", _get(b"Host: {host}"), REFUSED),
    "two other hosts": Rule("9112 3.2", _get(b"Host: evil.example"), REFUSED),
    "tunnel": Rule("9110 9.3.6", b"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n", REFUSED),
    "body cut off": Rule("9112 8", _post(b"ab", b"Content-Length: 3"), REFUSED),
    "chunks cut off": Rule("9112 8", _chunked(b"3\r\nab"), REFUSED),
    "head cut off": Rule("9112 8", _get()[:-2], REFUSED),
    "long head": Rule("9110 5.4", _get(b"X: " + b"y" * 70_000), REFUSED),
} | {
    name: Rule(section, request + SMUGGLED, REFUSED)
    for name, section, request in (
        ("CL.CL", "9112 6.3", _post(b"", b"Content-Length: 0", b"Content-Length: 50")),
        ("CL, list", "9112 6.3", _post(b"", b"Content-Length: 0, 50")),
        ("CL, negative", "9112 6.2", _post(b"", b"Content-Length: -1")),
        ("CL, plus", "9112 6.2", _post(b"", b"Content-Length: +0")),
        ("CL, hexadecimal", "9112 6.2", _post(b"", b"Content-Length: 0x0")),
        ("CL, underscore", "9112 6.2", _post(b"", b"Content-Length: 1_0")),
        ("CL, other digits", "9112 6.2", _post(b"", b"Content-Length: \xd9\xa0")),
        ("CL, words", "9112 6.2", _post(b"", b"Content-Length: 0 0")),
        ("CL, huge", "9112 6.2", _post(b"", b"Content-Length: " + b"9" * 40)),
        ("CL.TE", "9112 6.3", _chunked(END, b"Content-Length: 5")),
        ("TE.CL", "9112 6.3", _post(END, b"Content-Length: 5", b"Transfer-Encoding: chunked")),
        ("TE in HTTP/1.0", "9112 6.1", _chunked(END).replace(b"HTTP/1.1", b"HTTP/1.0")),
        ("TE.TE", "9112 6.1", _chunked(END, b"Transfer-Encoding: identity")),
        ("TE, twice chunked", "9112 6.1", _post(END, b"Transfer-Encoding: chunked, chunked")),
        ("TE, unknown", "9112 6.1", _post(END, b"Transfer-Encoding: xchunked")),
        ("TE, quoted", "9112 6.1", _post(END, b'Transfer-Encoding: "chunked"')),
        ("TE, vertical tab", "9112 6.1", _post(END, b"Transfer-Encoding: \x0bchunked")),
        ("TE, blank", "9112 5.1", _post(END, b"Transfer-Encoding : chunked")),
        ("chunk, negative", "9112 7.1", _chunked(b"-1\r\n\r\n")),
        ("chunk, prefix", "9112 7.1", _chunked(b"0x0\r\n\r\n")),
        ("chunk, blank", "9112 7.1", _chunked(b" 0\r\n\r\n")),
        ("chunk, bare line", "9112 7.1", _chunked(b"1\nx\r\n0\r\n\r\n")),
        ("chunk, extension", "9112 7.1.1", _chunked(b"1;\nxx\r\n0\r\n\r\n")),
        ("chunk, longer", "9112 7.1", _chunked(b"1\r\nxyz\r\n0\r\n\r\n")),
        ("chunk, no end", "9112 7.1", _chunked(b"1\r\nxXX0\r\n\r\n")),
        ("chunk, huge", "9112 7.1", _chunked(b"f" * 30 + b"\r\nx")),
    )
}  # fmt: skip


def outcome_of(rule: Rule, port: int, root: str, asked: Callable[[], int]) -> str:
    """Send the rule's request to a port of 127.0.0.1. Return its outcome, which may be one that no
    rule has. asked: how many requests have reached the service"""
    host = f"127.0.0.1:{port}".encode()
    before = asked()
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(rule.request.replace(b"{host}", host).replace(b"{root}", root.encode()))
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while data := connection.recv(65536):
            said += data
    statuses = [line.split()[1] for line in said.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    final = [int(status) for status in statuses if status != b"100"]
    taken = asked() - before
    if len(final) == 1 and 400 <= final[0] < 600 and taken == 0:
        return REFUSED
    if len(final) == 1 and final[0] < 400 and taken == 1:
        return TAKEN
    return f"statuses {final}, {taken} requests at the service"


def assert_rules_hold(
    port: int, root: str, asked: Callable[[], int], *, passes: bool = False
) -> None:
    """Ask a port for everything that is in RULES. passes: it passes bytes on as they come, so only
    the service can refuse a request that is cut off"""
    wrong = {}
    for name, rule in RULES.items():
        if passes and name.endswith("cut off"):
            continue
        found = outcome_of(rule, port, root, asked)
        if found != rule.outcome and (rule.outcome != EITHER or found not in (TAKEN, REFUSED)):
            wrong[name] = f"RFC {rule.section}: {found}"
    assert not wrong, wrong
