# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What StoArranger left open: a large file of which little has changed, to a service that takes
whole files only. Home has the service's file, and is sent what is not in it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator

from bench.harness import Figure, figure
from bench.uplink.world import PASSWORD, USER, world

SIZE, QUICK_SIZE = 100_000_000, 20_000_000
PART = 100
"""Of the file, one part has changed."""

FRACTION = 0.03
"""Goal: bytes on the mobile's link by those of the file."""

FOREVER = 3600.0


def whole(quick: bool) -> Iterator[Figure]:
    """Bytes on the mobile's link for one changed part in the middle of a file of random bytes."""
    size = QUICK_SIZE if quick else SIZE
    with world(fresh=FOREVER, helped=True) as there:
        place, source = there.files / "large", there.folder / "source"
        content = bytearray(os.urandom(size))
        place.write_bytes(content)
        curl = ("curl", "-sf", "-u", f"{USER}:{PASSWORD}")
        there.seconds(*curl, "-X", "PROPFIND", "-H", "Depth: 1", f"{there.through}/")
        content[size // 2 : size // 2 + size // PART] = os.urandom(size // PART)
        source.write_bytes(content)
        satchel = there.satchel
        before, began = there.bytes(), time.monotonic()
        run = (*satchel, "run", "--background")
        there.seconds(*run, *curl, "-T", str(source), f"{there.through}/large")
        there.seconds(*satchel, "flush")
        taken, traffic = time.monotonic() - began, there.bytes() - before
        same = hashlib.sha256(place.read_bytes()).digest() == hashlib.sha256(content).digest()
        name = f"{size // 1_000_000} MB, 1 of {PART} parts changed"
        share = 100 * traffic / size
        yield figure(f"{name}: bytes on the link", share, "%", at_most=100 * FRACTION)
        yield figure(f"{name}: files that arrived otherwise", int(not same), "files", at_most=0)
        yield figure(f"{name}: until the service has it", taken, "s")
