# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate's host with scripted machines, and a home in miniature that offers it chunks.

Everything but the guest is real: stores, volumes, nbdkit, the RAM mount, forwarded sockets.
"""

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import flask
import pytest

from chunkstore import Store, TableRoot
from hypervisor import Boot, FakeDriver
from images import ContractSpec, Manifest
from replica import Replica, encode_working_set
from satchel.ids import ZERO_REF, OperationNumber, ReplicaId
from satchel.timestamps import format_timestamp
from surrogate import Host, SurrogateSettings
from surrogate.replicas.hosted import HostedReplica
from tests.scripted import SPEC, operation, scripted_driver
from tests.surrogate.sources import StoreSource
from volumes import local_resolver
from wire import CreateReplica, Server, SourceAddress, chunk_routes, install_errors, serve

ADAPTER = ContractSpec().to_json()
EXECUTED = 3
"""Operations before the checkpoint."""


@dataclasses.dataclass(frozen=True)
class Origin:
    """A store with one checkpoint of a scripted machine."""

    store: Store
    manifest: Manifest


def make_origin(folder: Path) -> Origin:
    store = Store.create(folder / "home")
    replica = Replica(
        ReplicaId("first"),
        SPEC,
        store,
        scripted_driver(),
        folder / "o",
        adapter="http",
        stateful=True,
    )
    try:
        disk = TableRoot(ref=ZERO_REF, size=1 << 20)
        boot = Boot(Path("/none"), Path("/none"), "")
        replica.boot({"disk0": disk}, boot, local_resolver(store))
        for number in range(1, EXECUTED + 1):
            replica.execute(operation(number))
        frozen = replica.checkpoint()
    finally:
        replica.stop()
    return Origin(
        store,
        Manifest(
            service="notes",
            parent=None,
            created=format_timestamp(datetime.now(UTC)),
            operation=OperationNumber(EXECUTED),
            machine=SPEC.to_json(),
            contract=ContractSpec(),
            device_state=frozen.device_state,
            volumes=frozen.volumes,
            working_set=store.import_bytes(encode_working_set([], lambda run: b"")),
        ),
    )


class Site:
    """A host, and a home whose chunks are forwarded to it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.origin = make_origin(folder)
        self.source = StoreSource("home", self.origin.store)
        self.driver: FakeDriver = scripted_driver()
        defaults: dict[str, Any] = {"name": "spot", "allow_emulation": True, "disk_mib": 1}
        self.settings = SurrogateSettings(
            data=folder / "data", run=folder / "run", **defaults | settings
        )
        self.settings.forwarded.mkdir(parents=True, mode=0o700)
        self.host = Host(self.settings, self.driver)
        self.server = self.forward("home")

    def forward(self, name: str, folder: Path | None = None) -> Server:
        """folder: of a tenant; by default the account's"""
        app = flask.Flask(name)
        install_errors(app)
        app.register_blueprint(chunk_routes(self._records))
        place = (folder or self.settings.forwarded) / name
        return serve(app, place, threads=4, max_body=1 << 20)

    def _records(self, refs: bytes) -> bytes:
        """Of the source as it is now: tests replace its `fetch`."""
        return self.source.fetch(refs)

    def request(self, name: str = "r1", **changes: Any) -> CreateReplica:
        """`changes` are of the manifest."""
        manifest = dataclasses.replace(self.origin.manifest, **changes)
        return CreateReplica(
            replica=ReplicaId(name),
            service="notes",
            manifest=manifest.to_json(),
            sources=(SourceAddress("home", str(self.server.path)),),
        )

    def create(self, name: str = "r1", **changes: Any) -> HostedReplica:
        """A replica that runs, or has failed."""
        hosted = self.host.create(self.request(name, **changes))
        hosted.wait_started(30.0)
        return hosted

    def left(self) -> list[str]:
        """Run folders that are there."""
        return sorted(path.name for path in (self.settings.run / "r").glob("*"))

    def close(self) -> None:
        self.host.close()
        self.server.close()
        self.origin.store.close()


@pytest.fixture
def site(short_path: Path) -> Iterator[Site]:
    made = Site(short_path)
    yield made
    made.close()
