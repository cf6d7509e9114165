# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The trial of an image: may its service be replayed, or has it to be carried?

The image is booted twice, one after the other, so that clocks and randomness are not the same. Both
execute the same operations: the recipe's requests, twice over. Where every answer and the service's
state are equal, replicas will answer alike. Where they are not, the same is tried with clocks and
randomness from the log (`needs`), by each tier in turn, the cheapest first: a library that is
preloaded, then the kernel that asks the agent. Of what differs even then the likely cause is looked
for.

A trial finds differences; it proves no equality. What the recipe's requests do not touch it does
not see, and the `doctor` looks at the log of real use.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkstore import Store
from homeserver.machine_options import MachineOptions
from homeserver.services.doctor import EXCERPT_BYTES, DoctorReplica, excerpt
from homeserver.services.machines import Machines, operation_of
from homeserver.services.records import ServiceRecord
from hypervisor import Driver
from images import CARRY, REPLAY, TIERS, BuiltImage, Contract, Rehearsal, Tier, decided, tiered
from replay import AnswerDifference, Operation, adapters, explain
from sandbox import Cells
from satchel.ids import OperationNumber
from satchel.progress import Progress, silent
from satchel.timestamps import timestamp_now
from volumes import RawBlocks

ROUNDS = 2
"""How often the recipe's requests are played: the second time finds what the first has left."""

UNPACKED_BYTES = 256 << 20

AS_IT_IS = "as it is"
_BY = {"preload": "a library is preloaded", "notifier": "the kernel asks the agent"}


@dataclass(frozen=True)
class TrialVerdict:
    """What a trial has found.

    contract:   `replay` or `carry`, as in a recipe
    needs:      what the recipe has to say for that, if it does not yet
    tier:       of determinism, in a recipe's words, or `as it is`; empty where it is carried
    requests:   how many operations each machine executed
    why:        one sentence
    request:    the first one that was answered differently, or empty
    first, second: the beginnings of both answers
    """

    contract: Contract
    needs: tuple[str, ...]
    requests: int
    why: str
    request: str = ""
    first: str = ""
    second: str = ""
    tier: str = ""

    @property
    def carried(self) -> bool:
        """Whether the service has to be carried."""
        return self.contract == CARRY


@dataclass(frozen=True)
class _Run:
    """What one machine answered, and the digest of its state."""

    answers: list[bytes]
    digest: str


def decide(
    image: BuiltImage, contract: Contract | None, trial: Callable[[], TrialVerdict]
) -> TrialVerdict:
    """Give an image the contract that is said, else, if its recipe leaves it open, the one that
    the trial finds, with the cheapest tier that works. Raises the errors of both."""
    recipe = image.recipe
    if contract is not None:
        verdict = TrialVerdict(contract, (), 0, "--contract says so")
    elif not recipe.undecided:
        why = "its recipe says so"
        return TrialVerdict(recipe.contract_spec().kind, (), 0, why)
    elif not recipe.rehearsal:
        why = "its recipe has no requests by which it can be tried"
        verdict = TrialVerdict(CARRY, (), 0, why)
    else:
        verdict = trial()
    tier = next((tier for tier in TIERS if verdict.needs and tier == verdict.tier), None)
    decided(image, verdict.contract, tier)
    return verdict


class ImageTrial:
    """Of one built image. It has a store of its own and leaves nothing."""

    def __init__(
        self,
        folder: Path,
        driver: Driver,
        wish: MachineOptions,
        *,
        cells: Cells | None = None,
        timeout: float | None,
        progress: Progress = silent,
    ) -> None:
        """folder: the image's. wish: what the home wishes of every machine. cells: in which they
        run, if they do. timeout: seconds until its service has to listen, None: as at a launch.
        progress: in steps of a boot or a request. Raises ImageNotBuilt, ImageDamaged."""
        self._wish = wish
        self.image = BuiltImage.load(folder)
        self._folder, self._driver, self._timeout = folder, driver, timeout
        self._cells = cells
        self._progress, self._done = progress, 0
        self._operations = _operations(self.image)

    def verdict(self) -> TrialVerdict:
        """Boot it and say. Raises what booting raises: ReplicaFailed with the console's last words
        where the service does not listen."""
        with tempfile.TemporaryDirectory(prefix=".try-", dir=self._folder.parent) as name:
            scratch = Path(name)
            if self.image.recipe.carried:
                with self._machine(self._folder, scratch / "carried"):
                    why = "its recipe says so; it was booted, and it listens"
                return TrialVerdict(CARRY, (), 0, why)
            found = self._differs(self._folder, scratch / "as-it-is")
            if not found:
                why = "two machines gave the same answers and had the same state"
                recipe = self.image.recipe
                tier = recipe.tier if recipe.needs else AS_IT_IS
                return TrialVerdict(REPLAY, (), len(self._operations), why, tier=tier)
            last = found
            for tier in self._tiers():
                folder = scratch / tier / self._folder.name
                folder.parent.mkdir()
                tiered(self.image, folder, tier)
                better = self._differs(folder, scratch / f"with-{tier}")
                if not better:
                    return self._needs(tier, found)
                last = better
            return self._carry(last)

    def _tiers(self) -> list[Tier]:
        """Those that take more than what the recipe has already."""
        recipe, tiers = self.image.recipe, list(TIERS)
        return tiers[tiers.index(recipe.tier) + 1 :] if recipe.needs else tiers

    def _needs(self, tier: Tier, found: AnswerDifference | str) -> TrialVerdict:
        why = f"its answers are the same where clocks and randomness come from the log: {_BY[tier]}"
        carry = self._carry(found)
        return dataclasses.replace(carry, contract=REPLAY, needs=TIERS[tier], tier=tier, why=why)

    def _carry(self, found: AnswerDifference | str) -> TrialVerdict:
        played = len(self._operations)
        if isinstance(found, str):
            return TrialVerdict(CARRY, (), played, found)
        label = adapters.for_kind(self.image.recipe.adapter_kind).label(found.operation)
        first, second = _excerpts(found.first, found.second)
        why = f"two machines answered differently, likely because of {found.cause.value}"
        return TrialVerdict(CARRY, (), played, f"{why}: {found.evidence}", label, first, second)

    def _differs(self, folder: Path, scratch: Path) -> AnswerDifference | str | None:
        """Where two machines of the image in `folder` part, if they do."""
        runs: list[_Run] = []
        for number in range(2):
            with self._machine(folder, scratch / str(number)) as copy:
                answers = []
                for operation in self._operations:
                    answers.append(copy.execute(operation).compared)
                    self._step()
                runs.append(_Run(answers, copy.replica.digest(list(self.image.recipe.state))))
        numbers = itertools.count()

        def fresh() -> AbstractContextManager[DoctorReplica]:
            return self._machine(folder, scratch / f"again-{next(numbers)}")

        for index, (one, other) in enumerate(zip(runs[0].answers, runs[1].answers, strict=True)):
            if one != other:
                return explain(self._operations, index, one, other, fresh)
        if runs[0].digest != runs[1].digest:
            folders = ", ".join(self.image.recipe.state)
            return f"the answers are the same, and what is in {folders} is not"
        return None

    @contextmanager
    def _machine(self, folder: Path, scratch: Path) -> Iterator[DoctorReplica]:
        """A machine of the image in `folder` that has just booted."""
        scratch.mkdir(parents=True)
        record = ServiceRecord(self.image.recipe.name, folder.name, timestamp_now(), True)
        with (
            Store.create(scratch / "store") as store,
            tempfile.TemporaryDirectory(prefix="satchel-try-") as run,
        ):
            unpacked = RawBlocks(scratch, UNPACKED_BYTES)
            machines = Machines(
                store,
                self._driver,
                Path(run),
                folder.parent,
                unpacked,
                self._wish,
                cells=self._cells,
            )
            try:
                prepared = machines.first_boot(record, timeout=self._timeout)
                prepared.start()
                self._step()
                yield DoctorReplica(prepared.replica)
            finally:
                machines.close()

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done, max(self._done, 2 * (1 + len(self._operations))))


def _operations(image: BuiltImage) -> list[Operation]:
    """The recipe's requests, ROUNDS times; where it has none, the one that HTTP always has."""
    recipe = image.recipe
    adapter = adapters.for_kind(recipe.adapter_kind)
    requests: Sequence[Rehearsal] = recipe.rehearsal
    if not requests and recipe.adapter_kind == adapters.http.kind:
        requests = [Rehearsal()]
    now = time.time_ns()
    return [
        operation_of(
            adapter,
            request,
            OperationNumber(number),
            time_ns=now + number * 10**9,
            seed=int.from_bytes(os.urandom(6), "big"),
        )
        for number, request in enumerate([*requests] * ROUNDS, 1)
    ]


def _excerpts(first: bytes, second: bytes) -> tuple[str, str]:
    """Both answers from a little before where they part."""
    pairs = enumerate(zip(first, second, strict=False))
    parted = next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))
    start = max(0, parted - EXCERPT_BYTES // 4)
    return excerpt(first[start:]), excerpt(second[start:])


def to_json(verdict: TrialVerdict) -> dict[str, Any]:
    """The verdict in JSON types."""
    return {**dataclasses.asdict(verdict), "needs": list(verdict.needs)}
