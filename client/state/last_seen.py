# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The newest state of each service that this client has known. A medium cannot say that itself: an
old copy of a stick is a good stick of that day. docs/formats/client-state.md"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Self, TypeVar

from client.state.kept import save
from images import Manifest
from satchel.errors import ConflictError
from satchel.ids import CheckpointId, OperationNumber
from satchel.timestamps import timestamp_now

logger = logging.getLogger(__name__)

_KNOWN = re.compile(rb"([0-9]{1,19})(?: ([0-9]{1,19}) ([0-9a-f]{64}))?\n")
_COPY = re.compile(rb"([0-9a-f]{16})(\+?)\n")


@dataclass(frozen=True)
class LastSeen:
    """last: the last operation; epoch and digest: of the checkpoint with the highest epoch, 0 and
    "" where none had one."""

    last: OperationNumber
    epoch: int = 0
    digest: str = ""

    def with_checkpoint(self, manifest: Manifest) -> LastSeen:
        """The same with that checkpoint, if it is a later one."""
        if manifest.epoch <= self.epoch:
            return self
        return replace(self, epoch=manifest.epoch, digest=manifest.digest)

    @classmethod
    def decode(cls, data: bytes) -> Self | None:
        """None for what is malformed."""
        if (found := _KNOWN.fullmatch(data)) is None:
            return None
        last, epoch, digest = found.groups(default=b"")
        return cls(OperationNumber(int(last)), int(epoch or 0), digest.decode())

    def encode(self) -> bytes:
        text = f"{self.last} {self.epoch} {self.digest}" if self.epoch else f"{self.last}"
        return f"{text}\n".encode()


NOTHING_SEEN = LastSeen(OperationNumber(0))


@dataclass(frozen=True)
class KnownCopy:
    """The newest state of a carried service that home has signed, as this client has known it.

    led_on: whether home's machine has led since then, so that home has a later state
    """

    checkpoint: CheckpointId
    led_on: bool

    @classmethod
    def decode(cls, data: bytes) -> Self | None:
        """None for what is malformed."""
        found = _COPY.fullmatch(data)
        return cls(CheckpointId(found[1].decode()), bool(found[2])) if found else None

    def encode(self) -> bytes:
        return self.checkpoint.encode() + (b"+\n" if self.led_on else b"\n")


class StateOlder(ConflictError):
    """A medium's state of a service is older than this client knows, expired, or of another line of
    checkpoints. Its use needs the owner's consent. The same applies to copies of a carried service.
    """

    def __init__(self, service: str, checkpoint: CheckpointId, what: str, why: str) -> None:
        super().__init__(
            what,
            why=f"{why}, and home cannot be asked",
            fix="take the medium that you used last, or lose the operations that it lacks: "
            f"`satchel run {service} --accept-older {checkpoint}`",
        )


def require_latest(known: LastSeen, manifest: Manifest, last: OperationNumber, now: str) -> None:
    """For a session without home. manifest: the checkpoint that it begins from; last: the last
    operation that its log has; now: as satchel.timestamps writes it. Raises StateOlder."""
    service = manifest.service
    if last < known.last:
        what = f"the medium has an older state of {service}: it ends with operation {last}"
        why = f"this client has known operation {known.last}"
    elif why := _expired(manifest, now):
        what = f"the checkpoint of {service} on the medium has expired"
    elif _of_another_line(known, manifest):
        what = f"the checkpoint of {service} on the medium is of another line than the last known"
        why = f"both are number {known.epoch}, or one is not made from the other"
    else:
        return
    raise StateOlder(service, manifest.id, what, why)


def _expired(manifest: Manifest, now: str) -> str:
    """Why it has; "" where it has not."""
    expires = manifest.expires
    if expires is None or now <= expires:
        return ""
    return f"it was good until {expires}, and it is {now} by this device's clock"


def _of_another_line(known: LastSeen, manifest: Manifest) -> bool:
    """Whether the owner has gone on from something else than what this client has known: after a
    backup was restored, or with a copy of the owner's key."""
    fresh = manifest.freshness
    if fresh is None or not known.epoch:
        return False
    if fresh.epoch == known.epoch:
        return manifest.digest != known.digest
    return fresh.epoch == known.epoch + 1 and fresh.previous != known.digest


def require_newest(known: KnownCopy | None, copy: Manifest, accepted: str) -> None:
    """For a session of a carried service without home: nothing older than what was known here.
    accepted: the id of a checkpoint with which the person goes on all the same. Raises StateOlder.
    """
    if accepted == copy.id:
        return
    if why := _expired(copy, timestamp_now()) or _not_newest(known, copy):
        what = f"the medium has an older state of {copy.service}, of {copy.created}"
        raise StateOlder(copy.service, copy.id, what, why)


def _not_newest(known: KnownCopy | None, copy: Manifest) -> str:
    """Why; empty where it is the newest, as far as this client knows."""
    if known and known.checkpoint != copy.id:
        return f"this client has known another one, {known.checkpoint}"
    return "home's machine was used after that" if known and known.led_on else ""


Known = TypeVar("Known", bound=LastSeen | KnownCopy)


class LastSeenStore(Generic[Known]):
    """A folder with one file for each service. Losing it costs the warning about an older state,
    and nothing else. Not thread-safe."""

    def __init__(self, folder: Path, decode: Callable[[bytes], Known | None]) -> None:
        """`folder` need not exist. decode: of a file's bytes"""
        self._folder = folder
        self._decode = decode

    def get(self, service: str) -> Known | None:
        """None where nothing is known, or where the file is damaged, which is logged. Raises
        OSError."""
        path = self._folder / service
        try:
            known = self._decode(path.read_bytes())
        except FileNotFoundError:
            return None
        if known is None:
            logger.warning("%s is damaged: an older state is not noticed", path)
        return known

    def put(self, service: str, known: Known) -> None:
        """Durable on return. Raises OSError."""
        if known != self.get(service):
            save(self._folder / service, known.encode())
