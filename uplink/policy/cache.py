# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which answers are kept, for whom, and for how long (StoArranger, section V-C).

The paper names a kept file by its address and leaves consistency open. Here an answer is kept for
one account at one service, only with a strong etag, and told apart by the headers that `Vary`
names (RFC 9111, section 4.1). For `fresh` seconds after the service last confirmed it, it is given
without a question. Later the service is asked whether it has changed; if not, it answers without
content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import Enum

SHARED_VARY = frozenset({"authorization", "origin"})
"""Names in Vary that tell nothing apart: accounts have keys of their own."""


class CacheFreshness(Enum):
    FRESH = "fresh"  # give it
    STALE = "stale"  # ask whether it has changed


def cache_key(
    service: str, account: str, url: str, vary: str = "", headers: Mapping[str, str] | None = None
) -> str:
    """Names an answer. vary: of the answer; headers: of the request, by names in lower case."""
    names = sorted({name.strip().lower() for name in vary.split(",")} - SHARED_VARY - {""})
    told = [[name, (headers or {}).get(name, "")] for name in names]
    return hashlib.sha256(json.dumps([service, account, url, told]).encode()).hexdigest()


def keepable(status: int, headers: Mapping[str, str]) -> bool:
    """Whether a whole answer to GET may be kept. headers: by names in lower case."""
    etag = headers.get("etag", "")
    control = {word.strip().lower() for word in headers.get("cache-control", "").split(",")}
    return (
        status == 200
        and etag.startswith('"')
        and headers.get("vary", "").strip() != "*"
        and "no-store" not in control
        and "content-range" not in headers
    )


def freshness(confirmed: float, now: float, fresh: float) -> CacheFreshness:
    """confirmed: when the service last said that it is so. After a clock went back it is stale."""
    return CacheFreshness.FRESH if 0 <= now - confirmed < fresh else CacheFreshness.STALE
