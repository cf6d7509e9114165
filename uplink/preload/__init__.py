# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A library (C++, `_native/satchel-http.so`) that is preloaded into programs: libcurl and libneon
then ask uplink for what is at a service, before anything is encrypted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

LIBRARY = Path(__file__).with_name("_native") / "satchel-http.so"

__all__ = ["LIBRARY", "preloaded"]


def preloaded(given: Mapping[str, str], origins: Iterable[str], port: int) -> dict[str, str]:
    """A program's environment with the library. origins: `https://HOST` or `https://HOST:PORT` of
    services, without a default port; port: uplink's, of 127.0.0.1."""
    before = given.get("LD_PRELOAD", "")
    return {
        **given,
        "LD_PRELOAD": f"{LIBRARY}:{before}" if before else str(LIBRARY),
        "SATCHEL_UPLINK_PORT": str(port),
        "SATCHEL_UPLINK_SERVICES": " ".join(origins),
    }
