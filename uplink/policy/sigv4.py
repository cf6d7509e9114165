# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that are signed one by one: AWS Signature Version 4, which S3 and its kin ask for.

A signature covers the method, the path, the query, some headers (the host among them) and mostly
the body, and is good for 15 minutes. So such a request goes as it is, and soon. Who has the key's
secret can tell whether a request is its owner's, and can ask in its name.

Source: "Authenticating FrontRequests (AWS Signature Version 4)", Amazon S3 API Reference.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote

ALGORITHM = "AWS4-HMAC-SHA256"
VALID_SECONDS = 900.0
"""For which a service takes a signature after its moment; and before it, for wrong clocks."""

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()

_SCOPE = r"([\w%+=,.@-]{1,128})/(\d{8})/([\w-]{1,64})/([\w-]{1,32})/aws4_request"
_HEADER = re.compile(
    ALGORITHM + rf" Credential={_SCOPE}, ?SignedHeaders=([\w;-]{{1,2000}}),"
    r" ?Signature=([0-9a-f]{64})"
)
_MOMENT = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Signature:
    """key: the name of the access key, which is no secret; moment: as it is written; headers: names
    of those that are signed, in lower case; seconds: for which it is good from its moment on"""

    key: str
    day: str
    region: str
    service: str
    headers: tuple[str, ...]
    value: str
    moment: str
    seconds: float = VALID_SECONDS

    def left(self, now: float) -> float:
        """Seconds for which it is still good; now: since 1970"""
        try:
            moment = datetime.strptime(self.moment, _MOMENT).replace(tzinfo=UTC)
        except ValueError:
            return 0.0
        return moment.timestamp() + self.seconds - now


def read_signature(headers: Mapping[str, str]) -> Signature | None:
    """That of a request; None where it has none that we know, one in its query included.

    headers: by names in lower case
    """
    found = _HEADER.fullmatch(headers.get("authorization", "").strip())
    if found is None:
        return None
    key, day, region, service, names, value = found.groups()
    moment = headers.get("x-amz-date", "")
    return Signature(key, day, region, service, tuple(names.split(";")), value, moment)


def verified(
    signature: Signature, secret: str, method: str, target: str, headers: Mapping[str, str]
) -> bool:
    """Whether who has the secret has signed this request; of its body only what it says of it.

    target: with its query, as it was sent; headers: by names in lower case, the host included
    """
    if "host" not in signature.headers or not signature.moment.startswith(signature.day):
        return False
    sent = {name: headers.get(name, "") for name in signature.headers}
    payload = headers.get("x-amz-content-sha256", EMPTY_SHA256)
    value = _value(signature, secret, _canonical(method, target, sent, payload))
    return hmac.compare_digest(value, signature.value)


def signed_headers(
    like: Signature, secret: str, target: str, host: str, now: float
) -> dict[str, str]:
    """Headers of a GET of our own in the name of the key, for the region of a request that the
    service took. host: as it will be sent; now: since 1970"""
    moment = datetime.fromtimestamp(now, UTC).strftime(_MOMENT)
    sent = {"host": host, "x-amz-content-sha256": EMPTY_SHA256, "x-amz-date": moment}
    names = tuple(sorted(sent))
    own = Signature(like.key, moment[:8], like.region, like.service, names, "", moment)
    value = _value(own, secret, _canonical("GET", target, sent, EMPTY_SHA256))
    del sent["host"]
    sent["Authorization"] = (
        f"{ALGORITHM} Credential={own.key}/{_scope(own)},"
        f" SignedHeaders={';'.join(names)}, Signature={value}"
    )
    return sent


def _scope(signature: Signature) -> str:
    return f"{signature.day}/{signature.region}/{signature.service}/aws4_request"


def _value(signature: Signature, secret: str, canonical: str) -> str:
    digest = hashlib.sha256(canonical.encode("latin-1", "replace")).hexdigest()
    text = "\n".join((ALGORITHM, signature.moment, _scope(signature), digest))
    key = b"AWS4" + secret.encode()
    for part in (signature.day, signature.region, signature.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _canonical(method: str, target: str, sent: Mapping[str, str], payload: str) -> str:
    path, _, query = target.partition("?")
    pairs = [part.partition("=")[::2] for part in query.split("&") if part]
    told = sorted((_encoded(name), _encoded(value)) for name, value in pairs)
    lines = [f"{name}:{' '.join(value.split())}\n" for name, value in sorted(sent.items())]
    return "\n".join(
        (
            method,
            quote(unquote(path), safe="/-_.~") or "/",
            "&".join(f"{name}={value}" for name, value in told),
            "".join(lines),
            ";".join(sorted(sent)),
            payload,
        )
    )


def _encoded(text: str) -> str:
    return quote(unquote(text.replace("+", " ")), safe="-_.~")
