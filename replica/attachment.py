# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The volumes of one machine: served by one nbdkit process, the RAM volume mapped as a file."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from chunkstore import Store, TableRoot
from hypervisor import CONFINED_FILES, LAUNCHER, READY, Boot, MachineSpec, RamMount, Wiring
from sandbox import CellMounts, Cells
from satchel.confinement import HOST, Confinement
from satchel.errors import StateError
from satchel.ids import BLOCK_SIZE
from satchel.process import PreparedProgram
from volumes import (
    BLOCK_READER,
    PLUGIN,
    RawBlocks,
    Resolver,
    Volume,
    VolumeServer,
    create_volume,
    open_volume,
)

RAM = "ram"
"""The volume that is the machine's memory; every other volume is a disk."""


MEMORY = "memory"
"""In a replica's folder: where that volume is mounted."""


class Attachment:
    """Volumes attached to a machine that is about to start. Not thread-safe; one owner.

    `volumes`: by name, in the order of the roots that they were opened with.
    """

    def __init__(
        self,
        run_dir: Path,
        server: VolumeServer,
        mount: RamMount,
        volumes: dict[str, Volume],
        room: Confinement = HOST,
    ) -> None:
        self._run_dir = run_dir
        self._room = room
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
        unpacked: RawBlocks | None = None,
        into: Callable[[CellMounts], Confinement] = lambda seen: HOST,
    ) -> Attachment:
        """Attach the volumes named by `roots` (one of them RAM) in the existing folder `run_dir`.

        Nothing is fetched: blocks are absent until `resolver` is asked for them.
        `read_ahead_kib`: see `RamMount.mount`; `unpacked`: see `VolumeServer.start`.
        `into`: makes the room in which the processes of this machine run, of what they must see
        there; the attachment owns it.
        Leaves no process, mount or socket behind when it raises, only files.
        """
        volumes = {name: create_volume(run_dir, name, root) for name, root in roots.items()}
        (run_dir / MEMORY).mkdir(exist_ok=True)
        room = into(
            CellMounts(
                run_dir,
                readable=[PLUGIN, BLOCK_READER, LAUNCHER],
                held=[store.packs_path],
                machine=[run_dir / name for name in CONFINED_FILES],
                helpers=[run_dir / (MEMORY + READY)],
                volumes=[path for one in volumes.values() for path in (one.map_path, one.overlay)],
                mounted=run_dir / MEMORY,
            )
        )
        try:
            server = VolumeServer.start(
                run_dir,
                store.packs_path,
                list(volumes.values()),
                resolver,
                unpacked=unpacked,
                room=room,
            )
        except BaseException:
            room.end()
            raise
        try:
            mount = RamMount.mount(
                server.uri(RAM), run_dir / MEMORY, read_ahead_kib=read_ahead_kib, room=room
            )
        except BaseException:
            server.stop()
            room.end()
            raise
        return cls(run_dir, server, mount, volumes, room)

    @classmethod
    def adopt(
        cls,
        run_dir: Path,
        roots: Mapping[str, TableRoot],
        resolver: Resolver,
        room: Confinement = HOST,
    ) -> Attachment:
        """Take over what an earlier process attached in `run_dir`, with the same roots in the same
        order, and has not committed since. Machines that map it go on, and what they miss is asked
        of `resolver`. `room`: where they run.

        Leaves everything as it is when it raises.
        """
        volumes: dict[str, Volume] = {}
        try:
            for name, root in roots.items():
                volumes[name] = open_volume(run_dir, name, root)
            mount = RamMount.adopt(run_dir / MEMORY, room)
            server = VolumeServer.adopt(run_dir, list(volumes.values()), resolver, room=room)
        except BaseException:
            for volume in volumes.values():
                volume.map.close()
            raise
        return cls(run_dir, server, mount, volumes, room)

    def wiring(self, name: str) -> Wiring:
        """What a driver needs in order to connect the machine of that name to these volumes."""
        disks = {name: self._server.uri(name) for name in self.volumes if name != RAM}
        return Wiring(self._run_dir, self._mount.file, disks, name, self._room)

    def flush(self) -> None:
        """Have the map of the memory show what the machine has written to it; it goes on. Raises
        RamMountFailed: memory is lost."""
        self._mount.sync()

    def write(self, blocks: Iterable[tuple[str, int, bytes]]) -> None:
        """Put content in the place of blocks, as if the machine, which does not run yet, had
        written it. Raises OSError, KeyError for a volume that there is not, and StateError for
        memory that the machine has read already: the kernel would go on with what it read."""
        read = set(self.volumes[RAM].map.touched())
        with contextlib.ExitStack() as stack:
            files: dict[str, IO[bytes]] = {}
            for name, number, content in blocks:
                volume = self.volumes[name]
                if name == RAM and number in read:
                    why = f"it has read block {number} of its memory"
                    raise StateError("a machine that waits cannot be written to", why=why)
                if name not in files:
                    files[name] = stack.enter_context(volume.overlay.open("r+b", buffering=0))
                os.pwrite(files[name].fileno(), content, number * BLOCK_SIZE)
                volume.map.mark_dirty(number, 1)

    @contextlib.contextmanager
    def about_to_commit(self) -> Iterator[PreparedProgram]:
        """What a `commit` within takes of the time in which its machine stands still."""
        prepared = self._mount.prepare_sync()
        try:
            yield prepared
        finally:
            prepared.close()

    def commit(self, store: Store, prepared: PreparedProgram | None = None) -> dict[str, TableRoot]:
        """Store every dirty block; new roots by volume name. The machine must be paused.

        The roots and all that they name are durable once the store is synced. Raises
        RamMountFailed: memory is lost, the machine must not go on. After another error it may go
        on, and a later commit has everything.
        """
        self._mount.sync(prepared)
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
            self._room.end()


def room_in(
    cells: Cells | None, spec: MachineSpec, boot: Boot | None, written: int, seen: CellMounts
) -> Confinement:
    """Return a room of these cells for a machine that sees that, and the files it boots from.

    written: the bytes that its disks may take. Without cells, return the host itself.
    """
    if cells is None:
        return HOST
    for path in (*seen.machine, *seen.helpers):
        path.touch(mode=0o600)
    started = boot.files if boot else []
    return cells.room(
        dataclasses.replace(seen, readable=[*seen.readable, *started]),
        memory=spec.memory_bytes,
        written=written,
        processors=spec.vcpus,
        kvm=spec.accelerator == "kvm",
    )
