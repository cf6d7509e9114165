# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The volumes of one machine: served by one nbdkit process, the RAM volume mapped as a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chunkstore import Store, TableRoot
from hypervisor import RamMount, Wiring
from overlay import Resolver, Volume, VolumeServer, create_volume

RAM = "ram"
"""The volume that is the machine's memory; every other volume is a disk."""


class Attachment:
    """Volumes attached to a machine that is about to start. Not thread-safe; one owner.

    `volumes` maps names to volumes in the order of the machine's disks, RAM first.
    """

    def __init__(self, server: VolumeServer, mount: RamMount, volumes: dict[str, Volume]) -> None:
        self._server = server
        self._mount = mount
        self.volumes = volumes

    @classmethod
    def open(
        cls, run_dir: Path, store: Store, roots: Mapping[str, TableRoot], resolver: Resolver
    ) -> Attachment:
        """Attach the volumes named by `roots` (one of them RAM) under `run_dir`.

        Nothing is fetched: blocks are absent until `resolver` is asked for them.
        Leaves no process and no mount behind when it raises.
        """
        volumes = {name: create_volume(run_dir, name, root) for name, root in roots.items()}
        server = VolumeServer.start(run_dir, store.packs_path, list(volumes.values()), resolver)
        try:
            mount = RamMount.mount(server.uri(RAM), run_dir / "memory")
        except BaseException:
            server.stop()
            raise
        return cls(server, mount, volumes)

    def wiring(self, run_dir: Path) -> Wiring:
        """What a driver needs in order to connect a machine to these volumes."""
        disks = {name: self._server.uri(name) for name in self.volumes if name != RAM}
        return Wiring(run_dir=run_dir, ram=self._mount.file, disks=disks)

    def commit(self, store: Store) -> dict[str, TableRoot]:
        """Store every dirty block; new roots by volume name. The machine must be paused.

        The roots and all that they name are durable in the store on return.
        """
        self._mount.sync()
        for volume in self.volumes.values():
            volume.root = store.commit(volume.root, volume.map, volume.overlay)
        return {name: volume.root for name, volume in self.volumes.items()}

    def close(self) -> None:
        """Unmount and end the server. What was dirty and not committed is gone."""
        try:
            self._mount.unmount()
        finally:
            self._server.stop()
