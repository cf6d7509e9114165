# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The bytes of an access profile: a blob that goes with a checkpoint.

    profile := magic "SATP" (4)  version u8  volumes u8  phases u8  zero u8  week u32  runs u32
               name*  volume*  run*  phase*
    name    := length u8  bytes               of the volumes, sorted, then of the phases
    volume  := how many of the runs are its
    run     := gap  trust u32  reads  writes  hits  age  successors u8  (place  trust u8)*
    phase   := how many  (place  blocks u16)*

What has no size is a number in LEB128: seven bits in a byte, the lowest first, the highest bit set
where more follow. Runs are by volume and index: a gap is to the index before, or from -1. Places
are in that order too, as the difference to the place before it, or to the run's own, in zigzag: 0,
-1, 1, -2. Counts are in quarters. An age is in minutes before the end of the week. A phase's blocks
of a run have a bit each, the first block's lowest.
All integers are little-endian; docs/formats/profile.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping

from chunkstore import TableRoot
from replica.profile import (
    MOST_TRUST,
    PHASE_LIMIT,
    RUN_BLOCKS,
    RUN_LIMIT,
    SUCCESSORS,
    WEEK_SECONDS,
    Profile,
    RunContext,
    RunKey,
)
from satchel.errors import IntegrityError

MAGIC = b"SATP"
VERSION = 2

SIZE_LIMIT = 256 << 10
"""Bytes of a profile."""

VOLUME_LIMIT = 64

_HEADER = struct.Struct("<4sBBBBII")
_TRUST = struct.Struct("<I")
_BLOCKS = struct.Struct("<H")
_QUARTERS = 4
_COUNT_LIMIT = 1 << 20
_LEB_BYTES = 9
_MINUTE = 60.0


class ProfileInvalid(IntegrityError):
    """The bytes are not an access profile, or are of another version."""


def encode(profile: Profile) -> bytes:
    """At most SIZE_LIMIT bytes: the coldest runs are left out where that is needed."""
    limit = RUN_LIMIT
    while True:
        data = _encode(profile.hottest(limit))
        if len(data) <= SIZE_LIMIT:
            return data
        limit = min(limit, len(profile.runs)) * 3 // 4


def decode(data: bytes, volumes: Mapping[str, TableRoot]) -> Profile:
    """The profile of bytes from anybody, within `volumes`. Raises ProfileInvalid."""
    if len(data) > SIZE_LIMIT:
        raise _invalid(f"it has more than {SIZE_LIMIT} bytes")
    try:
        return _Reader(data, volumes).profile()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _invalid("it is cut short") from error


def _invalid(why: str) -> ProfileInvalid:
    return ProfileInvalid("not an access profile", why=why)


def _encode(profile: Profile) -> bytes:
    keys = sorted(profile.runs)
    places = {key: n for n, key in enumerate(keys)}
    volumes = sorted({volume for volume, _ in keys})
    phases = list(profile.phases)
    out = bytearray(
        _HEADER.pack(MAGIC, VERSION, len(volumes), len(phases), 0, profile.week, len(keys))
    )
    for name in (*volumes, *phases):
        out += bytes([len(name)]) + name.encode("ascii")
    for volume in volumes:
        out += _number(sum(key[0] == volume for key in keys))
    before: RunKey = ("", -1)
    for n, key in enumerate(keys):
        start = before[1] if before[0] == key[0] else -1
        out += _number(key[1] - start - 1)
        out += _run(profile.runs[key], n, places, (profile.week + 1) * WEEK_SECONDS)
        before = key
    for name in phases:
        order = [places[key] for key in profile.phases[name]]
        out += _number(len(order))
        masks = profile.phases[name].values()
        for place, last, mask in zip(order, [0, *order], masks, strict=False):
            out += _number(_zigzag(place - last)) + _BLOCKS.pack(mask)
    return bytes(out)


def _run(context: RunContext, own: int, places: Mapping[RunKey, int], end: float) -> bytes:
    out = bytearray(_TRUST.pack(context.trust))
    for count in (context.reads, context.writes, context.hits):
        out += _number(min(round(count * _QUARTERS), _COUNT_LIMIT))
    age = (end - context.last) / _MINUTE
    out += _number(
        min(max(math.ceil(age), 0), _COUNT_LIMIT) if math.isfinite(age) else _COUNT_LIMIT
    )
    out.append(len(context.successors))
    for key, trust in context.successors:
        out += _number(_zigzag(places[key] - own)) + bytes([trust])
    return bytes(out)


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


class _Reader:
    """Reads a profile once, from its beginning to its end."""

    def __init__(self, data: bytes, volumes: Mapping[str, TableRoot]) -> None:
        self._data = data
        self._volumes = volumes
        self._at = 0

    def profile(self) -> Profile:
        magic, version, volumes, phases, zero, week, count = _HEADER.unpack_from(self._data)
        self._at = _HEADER.size
        if magic != MAGIC:
            raise _invalid("it does not begin as one")
        if version != VERSION:
            raise _invalid(f"its version is {version}, and this Satchel knows {VERSION}")
        if volumes > VOLUME_LIMIT or phases > PHASE_LIMIT or count > RUN_LIMIT or zero:
            raise _invalid("it has more than there can be")
        names = [self._name() for _ in range(volumes)]
        called = [self._name() for _ in range(phases)]
        if any(name not in self._volumes for name in names) or names != sorted(set(names)):
            raise _invalid("it names volumes that are not")
        if len(set(called)) != len(called) or not all(called):
            raise _invalid("it names a phase twice")
        keys, contexts = self._runs(names, count, (week + 1) * WEEK_SECONDS)
        left = [context.trusted for context, _ in contexts]
        orders = [self._order(keys, left) for _ in called]
        if self._at != len(self._data):
            raise _invalid("it continues after its end")
        runs = {
            key: context._replace(successors=tuple((keys[n], t) for n, t in after))
            for key, (context, after) in zip(keys, contexts, strict=True)
        }
        return Profile(week, runs, dict(zip(called, orders, strict=True)))

    def _runs(
        self, names: list[str], count: int, end: float
    ) -> tuple[list[RunKey], list[tuple[RunContext, list[tuple[int, int]]]]]:
        keys: list[RunKey] = []
        contexts = []
        counts = [self._number(RUN_LIMIT) for _ in names]
        if sum(counts) != count:
            raise _invalid("its volumes have other runs")
        for name, mine in zip(names, counts, strict=True):
            index = -1
            blocks = self._volumes[name].blocks
            for _ in range(mine):
                index += self._number(blocks // RUN_BLOCKS) + 1
                keys.append((name, index))
                contexts.append(self._run(len(keys) - 1, count, end))
                left = blocks - index * RUN_BLOCKS
                if left <= 0 or any(n >= left for n in contexts[-1][0].blocks()):
                    raise _invalid("it names blocks that are not")
        return keys, contexts

    def _run(self, own: int, count: int, end: float) -> tuple[RunContext, list[tuple[int, int]]]:
        (trust,) = _TRUST.unpack(self._take(_TRUST.size))
        reads, writes, hits = (self._number(_COUNT_LIMIT) / _QUARTERS for _ in range(3))
        last = end - self._number(_COUNT_LIMIT) * _MINUTE
        many = self._take(1)[0]
        if many > SUCCESSORS:
            raise _invalid("a run has too many successors")
        after = [(self._place(own, count), self._trust()) for _ in range(many)]
        if len({place for place, _ in after}) != len(after):
            raise _invalid("a run has a successor twice")
        return RunContext(trust, reads, writes, hits, last), after

    def _order(self, keys: list[RunKey], left: list[int]) -> dict[RunKey, int]:
        """A phase. left: of each run the trusted blocks that are in no phase before; changed."""
        place, order = 0, {}
        for _ in range(self._number(len(keys))):
            place = self._place(place, len(keys))
            (mask,) = _BLOCKS.unpack(self._take(_BLOCKS.size))
            if keys[place] in order:
                raise _invalid("a phase has a run twice")
            if not mask or mask & ~left[place]:
                raise _invalid("a phase has blocks that it cannot have")
            left[place] &= ~mask
            order[keys[place]] = mask
        return order

    def _trust(self) -> int:
        trust = self._take(1)[0]
        if not 0 < trust <= MOST_TRUST:
            raise _invalid("a malformed trust")
        return trust

    def _place(self, before: int, count: int) -> int:
        coded = self._number(2 * RUN_LIMIT)
        place = before + (coded >> 1 if coded & 1 == 0 else -(coded + 1 >> 1))
        if not 0 <= place < count:
            raise _invalid("it leads to a run that is not")
        return place

    def _name(self) -> str:
        return self._take(self._take(1)[0]).decode("ascii")

    def _number(self, limit: int) -> int:
        value = 0
        for n, byte in enumerate(self._leb()):
            value |= (byte & 0x7F) << 7 * n
        if value > limit:
            raise _invalid(f"a number above {limit}")
        return value

    def _leb(self) -> Iterator[int]:
        for _ in range(_LEB_BYTES):
            byte = self._take(1)[0]
            yield byte
            if byte < 0x80:
                return
        raise _invalid("a number that does not end")

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise IndexError(self._at)
        self._at += size
        return taken
