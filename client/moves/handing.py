# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The beginning of a replica at a surrogate, and the hand-over by a carried service's leader.

A first freeze gives the state of the machine, which continues. The new place prepares a replica of
that state: volumes, prefetched blocks, QEMU. Deltas follow, each since the one
before, as long as they get smaller. The last one is made of a machine that is held, and has the
device state with which the new replica continues. So the streams stand still for that one delta.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chunkstore import TableRoot
from client.places.home import Home
from client.places.place import OfferedDelta, Place
from client.places.surrogate import Surrogate
from client.platform.settings import HOME
from client.session.checkpoints import handed_over, verified
from client.session.journal import Journal
from images import Manifest
from satchel.errors import SatchelError, UnavailableError
from satchel.spans import Steps

logger = logging.getLogger(__name__)

ROUNDS = 4
"""Deltas before the last one, at most."""

SMALL_BYTES = 192 << 10
"""A delta as small as this is not worth another one before the last: most of it is the device
state."""

DELTA = "a delta"
HOLD = "hold, last delta, resume"


@dataclass(frozen=True)
class Begin:
    """The state that a replica is resumed from, and its giver. seconds: until it was there;
    paused_seconds: how long the machine stood still there for it; pages, touched: see
    HandoverState."""

    manifest: Manifest
    seconds: float = 0.0
    changed: dict[str, Any] | None = None
    pages: dict[str, Any] | None = None
    giver: Surrogate | None = None
    paused_seconds: float = 0.0
    touched: dict[str, tuple[int, ...]] = field(default_factory=dict)


def begin_at_home(home: Home, allowed_signers: Path) -> Begin:
    """Begin with a checkpoint that home takes now. Raises home's errors and AccessError."""
    began = time.monotonic()
    home.take_checkpoint()
    manifest = verified(home.service, *home.checkpoint(), HOME, allowed_signers)
    return Begin(manifest, time.monotonic() - began)


def begin_at(giver: Surrogate, checkpoint: Manifest, journal: Journal | None = None) -> Begin:
    """Begin with a freeze of the machine there. checkpoint: the one it was resumed from; journal:
    that of a replayed service. Raises the surrogate's errors and CheckpointDamaged."""
    began = time.monotonic()
    handed = giver.hand_over()
    manifest = handed_over(checkpoint, handed, journal)
    return Begin(
        manifest,
        time.monotonic() - began,
        changed=handed.changed,
        pages=handed.pages,
        giver=giver,
        paused_seconds=handed.paused_seconds,
        touched=handed.touched,
    )


def hand_over(
    leader: Place, place: Surrogate, tables: Mapping[str, TableRoot], steps: Steps
) -> dict[str, Any]:
    """Let a replica that stands by continue in place of the leader. tables: the state before the
    first delta. Return the fields of Went. After an error of either end the leader continues,
    unless it is lost."""
    sizes: list[int] = []
    for _ in range(ROUNDS):
        offered = leader.delta(tables)
        place.more(leader.fetch(offered))
        steps.done(DELTA)
        tables = offered.tables
        smaller = not sizes or offered.offer.size < sizes[-1] * 0.7
        sizes.append(offered.offer.size)
        if offered.offer.size < SMALL_BYTES or not smaller:
            break
    held = time.monotonic()
    last: OfferedDelta | None = None
    try:
        last = leader.delta(tables, hold=True)
        status = place.more(last.data or leader.fetch(last), go=True)
        if status.state != "ready":
            what = f"the replica at {place.name} does not run"
            unsaid = UnavailableError(what, why=f"it is {status.state}")
            raise status.error.to_error() if status.error else unsaid
    except BaseException:
        if last is not None:
            _release(leader)
        raise
    took = time.monotonic() - held
    steps.done(HOLD)
    return {
        "held_seconds": took,
        "paused_seconds": last.offer.paused_seconds,
        "deltas": (*sizes, last.offer.size),
        "stalled_seconds": status.stalls.seconds,
        "fetched_bytes": status.fetched_bytes,
    }


def _release(leader: Place) -> None:
    try:
        leader.go_on()
    except SatchelError as error:
        logger.error("%s does not go on: %s", leader.name, error)
