# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The last operation of each service that this client has known. A medium cannot say that itself:
an old copy of a stick is a good stick of that day. docs/formats/known.md"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

from client.kept import save
from images import Manifest
from satchel.errors import ConflictError
from satchel.ids import CheckpointId, OperationNumber

logger = logging.getLogger(__name__)

_NUMBER = re.compile(rb"[0-9]{1,19}\n")
_COPY = re.compile(rb"([0-9a-f]{16})(\+?)\n")


class StateOlder(ConflictError):
    """What a medium has of a service ends before what this client has known of it."""

    def __init__(
        self, service: str, last: OperationNumber, known: OperationNumber, checkpoint: CheckpointId
    ) -> None:
        super().__init__(
            f"the medium has an older state of {service}: it ends with operation {last}",
            why=f"this client has known operation {known}, and home cannot be asked",
            fix="take the medium that you used last, or give up what came after this one: "
            f"`satchel run {service} --accept-older {checkpoint}`",
        )


class CopyOlder(ConflictError):
    """What a medium has of a carried service is not the newest that this client has known."""

    def __init__(self, service: str, copy: Manifest, why: str) -> None:
        super().__init__(
            f"the medium has an older state of {service}, of {copy.created}",
            why=f"{why}, and home cannot be asked",
            fix="take the medium that you used last, or give up what came after this state: "
            f"`satchel run {service} --accept-older {copy.id}`",
        )


@dataclass(frozen=True)
class KnownCopy:
    """The newest state of a carried service that home has signed, as this client has known it.

    led_on: whether home's machine has led since then, so that home has a later state
    """

    checkpoint: CheckpointId
    led_on: bool


class LatestCopies:
    """A folder with one file for each carried service: the checkpoint, `+` where home's machine has
    led since, and a line feed. As Latest otherwise."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist."""
        self._folder = folder

    def get(self, service: str) -> KnownCopy | None:
        """What is known; None where nothing is. Raises OSError."""
        try:
            data = (self._folder / service).read_bytes()
        except FileNotFoundError:
            return None
        found = _COPY.fullmatch(data)
        if found is None:
            logger.warning("%s is damaged: an older state is not noticed", self._folder / service)
            return None
        return KnownCopy(CheckpointId(found[1].decode()), bool(found[2]))

    def put(self, service: str, copy: KnownCopy) -> None:
        """Durable on return. Raises OSError."""
        if copy != self.get(service):
            data = copy.checkpoint.encode() + (b"+\n" if copy.led_on else b"\n")
            save(self._folder / service, data)

    def require(self, service: str, copy: Manifest, accepted: str) -> None:
        """Without home: nothing older than what was known here. accepted: the id of a checkpoint
        with which the person goes on all the same. Raises CopyOlder, OSError."""
        known = self.get(service)
        if known is None or accepted == copy.id:
            return
        if known.checkpoint != copy.id:
            why = f"this client has known another one, {known.checkpoint}"
            raise CopyOlder(service, copy, why)
        if known.led_on:
            raise CopyOlder(service, copy, "home's machine was used after that")


class Latest:
    """A folder with one file for each service: a decimal number and a line feed. Losing it costs
    the warning about an older state, and nothing else. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist."""
        self._folder = folder

    def get(self, service: str) -> OperationNumber:
        """The last operation known; 0 where none is. Raises OSError."""
        try:
            data = (self._folder / service).read_bytes()
        except FileNotFoundError:
            return OperationNumber(0)
        if not _NUMBER.fullmatch(data):
            logger.warning("%s is damaged: an older state is not noticed", self._folder / service)
            return OperationNumber(0)
        return OperationNumber(int(data))

    def put(self, service: str, last: OperationNumber) -> None:
        """Durable on return. Raises OSError."""
        if last != self.get(service):
            save(self._folder / service, b"%d\n" % last)
