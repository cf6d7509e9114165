# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Conditional and ranged requests, and ages that they allow (RFC 9110, 13, 14; RFC 9111, 5.2).

Headers are those of a request, by names in lower case, several of one name joined by commas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_RANGE = re.compile(r"bytes=[ \t]*(\d*)-(\d*)[ \t]*", re.IGNORECASE)
_AGE = re.compile(r'max-age="?(\d{1,9})"?')

NOT_MODIFIED, PRECONDITION_FAILED, UNSATISFIABLE = 304, 412, 416

CONDITIONS = frozenset(
    ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range")
)


def failed_condition(
    method: str, headers: Mapping[str, str], etag: str, modified: float | None
) -> int | None:
    """Return the status that a condition demands in place of the method; None if all hold.

    etag: of the file, strong; empty if the path is free. modified: in seconds since 1970, None if
    it is not known
    """
    reads, at = method in ("GET", "HEAD"), None if modified is None else int(modified)
    since, unless = (
        read_date(headers.get(name)) for name in ("if-modified-since", "if-unmodified-since")
    )
    if "if-match" in headers:
        if not _matches(headers["if-match"], etag, weakly=False):
            return PRECONDITION_FAILED
    elif unless is not None and at is not None and at > unless:
        return PRECONDITION_FAILED
    if "if-none-match" in headers:
        if _matches(headers["if-none-match"], etag, weakly=True):
            return NOT_MODIFIED if reads else PRECONDITION_FAILED
    elif reads and since is not None and at is not None and at <= since:
        return NOT_MODIFIED
    return None


def wanted_range(
    method: str, headers: Mapping[str, str], size: int, etag: str, modified: float | None
) -> range | int | None:
    """Return the offsets that a request wants; None for all of the file, and UNSATISFIABLE. Several
    ranges are one request for all of it, and so is any range of an empty file."""
    found = _RANGE.fullmatch(headers.get("range", "")) if method == "GET" and size else None
    if found is None or not (found[1] or found[2]) or not _current(headers, etag, modified):
        return None
    if not found[1]:
        first, last = max(0, size - int(found[2])), size - 1
        return range(first, size) if int(found[2]) else UNSATISFIABLE
    first = int(found[1])
    last = min(int(found[2]), size - 1) if found[2] else size - 1
    if found[2] and int(found[2]) < first:
        return None
    return range(first, last + 1) if first < size else UNSATISFIABLE


def allowed_age(headers: Mapping[str, str], fresh: float) -> float:
    """Return for how many seconds an answer that is kept may be given to such a request, of which
    a service's description says `fresh`: 0 if the service has to be asked."""
    control = headers.get("cache-control", "").lower()
    words = {word.strip() for word in control.split(",")}
    if {"no-cache", "no-store"} & words or (
        not control and "no-cache" in headers.get("pragma", "")
    ):
        return 0.0
    ages = [float(age[1]) for word in words if (age := _AGE.fullmatch(word))]
    return min([fresh, *ages])


def _current(headers: Mapping[str, str], etag: str, modified: float | None) -> bool:
    """Whether If-Range holds."""
    condition = headers.get("if-range")
    if condition is None:
        return True
    if '"' in condition:
        return condition.strip() == etag
    return modified is not None and read_date(condition) == int(modified)


def _matches(condition: str, etag: str, *, weakly: bool) -> bool:
    if condition.strip() == "*":
        return bool(etag)
    tags = _TAG.findall(condition)
    return any(tag == etag and (weakly or not weak) for weak, tag in tags)


def read_date(text: str | None) -> float | None:
    """Return the seconds since 1970 of a date of HTTP; None for anything else."""
    try:
        found = parsedate_to_datetime(text or "")
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
