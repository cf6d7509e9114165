# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The last operation of each service that this client has known. A medium cannot say that itself:
an old copy of a stick is a good stick of that day. docs/formats/known.md"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from client.kept import save
from satchel.errors import ConflictError
from satchel.ids import CheckpointId, OperationNumber

logger = logging.getLogger(__name__)

_NUMBER = re.compile(rb"[0-9]{1,19}\n")


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
