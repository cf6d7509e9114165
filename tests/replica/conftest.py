# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A store, and replicas of a scripted guest: the volumes, nbdkit and the RAM mount are real."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import Store, TableRoot
from hypervisor import Boot, FakeDriver, MachineSpec
from replica import MachineSnapshot, Replica
from satchel.ids import ZERO_REF, ReplicaId
from tests.scripted import SPEC, scripted_driver
from volumes import Volume, create_volume, local_resolver

NO_BOOT = Boot(Path("/none"), Path("/none"), "")


class Bench:
    """Replicas on one store, all of which are stopped in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store.create(folder / "store")
        self.driver = scripted_driver()
        self.replicas: list[Replica] = []

    def replica(
        self, *, stateful: bool = True, driver: FakeDriver | None = None, spec: MachineSpec = SPEC
    ) -> Replica:
        """One that has not been started."""
        name = f"r{len(self.replicas)}"
        made = Replica(
            ReplicaId(name),
            spec,
            self.store,
            driver or self.driver,
            self.folder / "run" / name,
            adapter="http",
            stateful=stateful,
        )
        self.replicas.append(made)
        return made

    def boot(self, replica: Replica) -> Replica:
        disk = TableRoot(ref=ZERO_REF, size=1 << 20)
        replica.boot({"disk0": disk}, NO_BOOT, local_resolver(self.store))
        return replica

    def resume(self, replica: Replica, frozen: MachineSnapshot) -> Replica:
        replica.resume(frozen, local_resolver(self.store), self.store.read)
        return replica

    def left(self) -> list[str]:
        """What is in the folder of run folders."""
        return sorted(path.name for path in (self.folder / "run").glob("*"))


@pytest.fixture
def bench(short_path: Path) -> Iterator[Bench]:
    made = Bench(short_path)
    yield made
    for replica in made.replicas:
        replica.stop()
    made.store.close()


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return create_volume(tmp_path, "ram", TableRoot(ref=ZERO_REF, size=1 << 20))
