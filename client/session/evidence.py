# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept of a replica that answered otherwise than home, for people and for bug reports.

Each case is a folder, SERVICE/NUMBER-REPLICA, with the operation's record, the two responses and
`evidence.json`, which says the rest; docs/formats/evidence.md is the page. A folder appears whole
or not at all. All cases together take no more than was allowed: the oldest go first, and of what
is larger than a quarter of it, its beginning is kept.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client.session.comparison import Divergence
from client.session.proof import NAME, Proof
from replay import Operation
from satchel.files import by_age, sync_folder, write_durably
from satchel.ids import CheckpointId, ReplicaId
from satchel.timestamps import timestamp_now

logger = logging.getLogger(__name__)

VERSION = 2

OPERATION = "operation"
RESPONSES = ("replica.response", "home.response")
FACTS = "evidence.json"


@dataclass(frozen=True)
class Case:
    """A divergence, and where it happened. journal: the folder of the log, None where there is
    none; operation: None where the journal has it no more; proof: None where not both signed;
    givers: the surrogates that handed the replica's machine over, in order."""

    service: str
    checkpoint: CheckpointId
    surrogate: str
    replica: ReplicaId
    journal: Path | None
    operation: Operation | None
    divergence: Divergence
    proof: Proof | None = None
    givers: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """What `evidence.json` says."""
        said, expected = self.divergence.said, self.divergence.expected
        return {
            "version": VERSION,
            "created": timestamp_now(),
            "service": self.service,
            "checkpoint": self.checkpoint,
            "surrogate": self.surrogate,
            "replica": self.replica,
            "handed_over_by": list(self.givers),
            "operation": self.divergence.operation,
            "journal": str(self.journal) if self.journal else None,
            "replica_digest": said.digest.hex(),
            "home_digest": expected.digest.hex(),
        }


class Evidence:
    """The cases below one folder, of at most `limit` bytes together. One thread at a time."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def keep(self, case: Case) -> Path:
        """Durable on return; the case's folder. Raises OSError."""
        above = self._folder / case.service
        place = above / f"{case.divergence.operation}-{case.replica}"
        temporary = above / f".new-{case.replica}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True, mode=0o700)
        whole = {
            OPERATION: case.operation.encode() if case.operation else None,
            RESPONSES[0]: case.divergence.said.payload,
            RESPONSES[1]: case.divergence.expected.payload,
        }
        if case.proof:
            write_durably(temporary / NAME, case.proof.encode())
        for name, data in whole.items():
            if data is not None:
                write_durably(temporary / name, data[: self._limit // 4])
        write_durably(temporary / FACTS, json.dumps(case.facts(), indent=1).encode() + b"\n")
        shutil.rmtree(place, ignore_errors=True)
        temporary.rename(place)
        sync_folder(above)
        self._bound(place)
        return place

    def _bound(self, newest: Path) -> None:
        cases = by_age(self._folder.glob("*/*"))
        sizes = {case: sum(file.stat().st_size for file in case.iterdir()) for case in cases}
        total = sum(sizes.values())
        for case in cases:
            if total <= self._limit:
                return
            if case != newest:
                shutil.rmtree(case, ignore_errors=True)
                total -= sizes[case]
