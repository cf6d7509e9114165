# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which operations of a log count, when its key has changed: docs/formats/log.md."""

from __future__ import annotations

from itertools import pairwise

from replay.chain import KeyRing
from replay.segments import Segment
from satchel.ids import OperationNumber


def doubtful_in(segments: list[Segment], keys: KeyRing | None) -> frozenset[OperationNumber]:
    """The operations that do not count. With keys: those without their seal, those that do not
    follow the ones before them, and those under a key that no longer counts, unless a later
    segment vouches for them. A seal of such a key proves only that a record belongs to the seals
    after it: a wrong seal binds no record before it."""
    strange = {number for segment in segments for number in segment.doubtful}
    if keys is None:
        return frozenset(strange)
    for before, segment in pairwise(segments):
        if segment.offsets and segment.before != before.seal:
            strange.add(segment.first)
    wanted: bytes | None = None  # the seal for whose record a later segment vouches
    for segment in reversed(segments):
        linked = wanted is not None and wanted == segment.seal
        bound = linked and not segment.doubtful
        if keys.trusts(segment.epoch):
            bound = bound or vouches(segment, segment.epoch)
        else:
            end = max(segment.doubtful, default=segment.first - 1) if linked else segment.last
            strange.update(map(OperationNumber, range(segment.first, end + 1)))
        wanted = segment.before if bound else None
    return frozenset(strange)


def vouches(segment: Segment, epoch: int) -> bool:
    """Whether the key of that epoch vouches, by the segment's header, for all before it."""
    return segment.epoch == epoch > 0 and segment.sealed and segment.voucher


def lacks_voucher(segments: list[Segment], epoch: int) -> bool:
    """Whether a segment has another epoch, and none after it vouches for it."""
    old = [at for at, segment in enumerate(segments) if segment.epoch != epoch]
    later = segments[old[-1] + 1 :] if old else []
    return bool(old) and not any(vouches(segment, epoch) for segment in later)
