# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The newest state of each service that this client has known. A medium cannot say that itself: an
old copy of a stick is a good stick of that day. docs/formats/known.md"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from pathlib import Path

from client.kept import save
from images import Manifest
from satchel.errors import ConflictError
from satchel.ids import CheckpointId, OperationNumber

logger = logging.getLogger(__name__)

_KNOWN = re.compile(
    rb"(?P<last>[0-9]{1,19})(?: (?P<epoch>[0-9]{1,19}) (?P<digest>[0-9a-f]{64}))?\n"
)


@dataclass(frozen=True)
class Known:
    """last: the last operation; epoch and digest: of the checkpoint with the highest epoch, 0 and
    "" where none had one."""

    last: OperationNumber
    epoch: int = 0
    digest: str = ""

    def with_checkpoint(self, manifest: Manifest) -> Known:
        """The same with that checkpoint, if it is a later one."""
        if manifest.epoch <= self.epoch:
            return self
        return replace(self, epoch=manifest.epoch, digest=manifest.digest)


NOTHING = Known(OperationNumber(0))


class StateOlder(ConflictError):
    """What a medium has of a service is not to be used without a word of its owner's: it is older
    than what this client has known, expired, or of another line of checkpoints."""

    def __init__(self, service: str, checkpoint: CheckpointId, what: str, why: str) -> None:
        super().__init__(
            what,
            why=f"{why}, and home cannot be asked",
            fix="take the medium that you used last, or give up what is not on this one: "
            f"`satchel run {service} --accept-older {checkpoint}`",
        )


def require_latest(known: Known, manifest: Manifest, last: OperationNumber, now: str) -> None:
    """For a session without home. manifest: the checkpoint that it begins from; last: the last
    operation that its log has; now: as satchel.moments writes it. Raises StateOlder."""
    service, fresh = manifest.service, manifest.freshness
    if last < known.last:
        what = f"the medium has an older state of {service}: it ends with operation {last}"
        why = f"this client has known operation {known.last}"
    elif fresh is None:
        return
    elif fresh.expires is not None and fresh.expires < now:
        what = f"the checkpoint of {service} on the medium has expired"
        why = f"it was good until {fresh.expires}, and it is {now} by this device's clock"
    elif _of_another_line(known, manifest):
        what = f"the checkpoint of {service} on the medium is of another line than the last known"
        why = f"both are number {known.epoch}, or one is not made from the other"
    else:
        return
    raise StateOlder(service, manifest.id, what, why)


def _of_another_line(known: Known, manifest: Manifest) -> bool:
    """Whether the owner has gone on from something else than what this client has known: after a
    backup was restored, or with a copy of the owner's key."""
    fresh = manifest.freshness
    if fresh is None or not known.epoch:
        return False
    if fresh.epoch == known.epoch:
        return manifest.digest != known.digest
    return fresh.epoch == known.epoch + 1 and fresh.previous != known.digest


class Latest:
    """A folder with one file for each service. Losing it costs the warning about an older state,
    and nothing else. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist."""
        self._folder = folder

    def get(self, service: str) -> Known:
        """Raises OSError."""
        try:
            data = (self._folder / service).read_bytes()
        except FileNotFoundError:
            return NOTHING
        found = _KNOWN.fullmatch(data)
        if not found:
            logger.warning("%s is damaged: an older state is not noticed", self._folder / service)
            return NOTHING
        last, epoch, digest = found.groups(default=b"")
        return Known(OperationNumber(int(last)), int(epoch or 0), digest.decode())

    def put(self, service: str, known: Known) -> None:
        """Durable on return. Raises OSError."""
        if known != self.get(service):
            text = f"{known.last} {known.epoch} {known.digest}" if known.epoch else f"{known.last}"
            save(self._folder / service, f"{text}\n".encode())
