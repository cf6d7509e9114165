# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The volumes of one machine: served by one nbdkit process, the RAM volume mapped as a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chunkstore import Store, TableRoot
from hypervisor import RamMount, Wiring
from overlay import Resolver, Unpacked, Volume, VolumeServer, create_volume, open_volume

RAM = "ram"
"""The volume that is the machine's memory; every other volume is a disk."""


class Attachment:
    """Volumes attached to a machine that is about to start. Not thread-safe; one owner.

    `volumes`: by name, in the order of the roots that they were opened with.
    """

    def __init__(
        self, run_dir: Path, server: VolumeServer, mount: RamMount, volumes: dict[str, Volume]
    ) -> None:
        self._run_dir = run_dir
        self._server = server
        self._mount = mount
        self.volumes = volumes

    @classmethod
    def open(
        cls,
        run_dir: Path,
        store: Store,
        roots: Mapping[str, TableRoot],
        resolver: Resolver,
        *,
        read_ahead_kib: int = 0,
        unpacked: Unpacked | None = None,
    ) -> Attachment:
        """Attach the volumes named by `roots` (one of them RAM) in the existing folder `run_dir`.

        Nothing is fetched: blocks are absent until `resolver` is asked for them.
        `read_ahead_kib`: see `RamMount.mount`; `unpacked`: see `VolumeServer.start`.
        Leaves no process, mount or socket behind when it raises, only files.
        """
        volumes = {name: create_volume(run_dir, name, root) for name, root in roots.items()}
        server = VolumeServer.start(
            run_dir, store.packs_path, list(volumes.values()), resolver, unpacked=unpacked
        )
        try:
            mount = RamMount.mount(
                server.uri(RAM), run_dir / "memory", read_ahead_kib=read_ahead_kib
            )
        except BaseException:
            server.stop()
            raise
        return cls(run_dir, server, mount, volumes)

    @classmethod
    def adopt(cls, run_dir: Path, roots: Mapping[str, TableRoot], resolver: Resolver) -> Attachment:
        """Take over what an earlier process attached in `run_dir`, with the same roots in the same
        order, and has not committed since. Machines that map it go on, and what they miss is asked
        of `resolver`.

        Leaves everything as it is when it raises.
        """
        volumes: dict[str, Volume] = {}
        try:
            for name, root in roots.items():
                volumes[name] = open_volume(run_dir, name, root)
            mount = RamMount.adopt(run_dir / "memory")
            server = VolumeServer.adopt(run_dir, list(volumes.values()), resolver)
        except BaseException:
            for volume in volumes.values():
                volume.map.close()
            raise
        return cls(run_dir, server, mount, volumes)

    def wiring(self, name: str) -> Wiring:
        """What a driver needs in order to connect the machine of that name to these volumes."""
        disks = {name: self._server.uri(name) for name in self.volumes if name != RAM}
        return Wiring(run_dir=self._run_dir, ram=self._mount.file, disks=disks, name=name)

    def flush(self) -> None:
        """Have the map of the memory show what the machine has written to it; it goes on. Raises
        RamMountFailed: memory is lost."""
        self._mount.sync()

    def commit(self, store: Store) -> dict[str, TableRoot]:
        """Store every dirty block; new roots by volume name. The machine must be paused.

        The roots and all that they name are durable in the store on return. Raises RamMountFailed:
        memory is lost, the machine must not go on. After another error it may go on, and a later
        commit has everything.
        """
        self._mount.sync()
        for volume in self.volumes.values():
            volume.root = store.commit(volume.root, volume.map, volume.overlay)
        return {name: volume.root for name, volume in self.volumes.items()}

    def give_back(self) -> None:
        """Have the space that a commit made free given back, while the machine goes on."""
        for volume in self.volumes.values():
            volume.map.ask_for_space()

    def abort(self) -> None:
        """Free whoever waits for the RAM file. Memory is lost; `close` is still needed."""
        self._mount.abort()

    def close(self) -> None:
        """Unmount, end the server, close the maps. What was dirty and not committed is gone."""
        try:
            self._mount.unmount()
        finally:
            self._server.stop(remove=True)
