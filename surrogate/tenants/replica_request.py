# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a client asks for, checked: its manifest, its machine, and the sockets that it names."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkstore import TableRoot
from guestshares import ShareHost
from hypervisor import MachineSpec
from images import Manifest, blob_root
from replica import RAM
from satchel.errors import NotFoundError
from surrogate.guests import guest_shares
from surrogate.tenants.tenant import Usage
from wire import CreateReplica


class NotForwarded(NotFoundError):
    """The source is not a socket that a client forwarded to this host."""


@dataclass(frozen=True)
class ReplicaRequest:
    """A replica that a client asks for. places: the sockets of its sources, by name."""

    request: CreateReplica
    manifest: Manifest
    spec: MachineSpec
    places: Sequence[tuple[str, Path]]
    shares: ShareHost | None

    @classmethod
    def by(
        cls, request: CreateReplica, place: Callable[[str], Path], nodes: Path
    ) -> ReplicaRequest:
        """place: where a socket is here that the request names; nodes: a folder for what nodes of
        shares keep. Raises what a malformed manifest raises."""
        manifest, calls = Manifest.from_json(request.manifest), request.calls
        return cls(
            request,
            manifest,
            MachineSpec.from_json(manifest.machine),
            [(source.name, place(source.socket)) for source in request.sources],
            guest_shares(request, place, nodes) if calls else None,
        )

    @property
    def roots(self) -> list[TableRoot]:
        return named_roots(self.manifest, self.request)

    @property
    def usage(self) -> Usage:
        """What it takes of its tenant's caps when it begins."""
        return Usage(
            replicas=1,
            memory_mib=self.spec.memory_mib,
            vcpus=self.spec.vcpus,
            volume_bytes=sum(
                root.size for name, root in self.manifest.volumes.items() if name != RAM
            ),
        )


def named_roots(manifest: Manifest, request: CreateReplica) -> list[TableRoot]:
    """Every table and blob that the client names: what is below is its own."""
    blobs = (manifest.device_state, manifest.working_set, manifest.profile)
    told = named_blobs({"changed": request.changed, "pages": request.pages})
    return [*manifest.volumes.values(), *(blob for blob in blobs if blob), *told]


def named_blobs(fields: Mapping[str, Any]) -> Iterable[TableRoot]:
    """Those that are not None. Raises what a malformed one raises."""
    return [blob_root(name, value) for name, value in fields.items() if value is not None]


def forwarded_socket(path: str, folder: Path) -> Path:
    """A source must be a socket that its client forwarded into its folder, nothing else of this
    host. Raises NotForwarded."""
    folder = folder.resolve()
    with contextlib.suppress(OSError):
        place = Path(path).resolve(strict=True)
        if place.parent == folder and stat.S_ISSOCK(place.stat().st_mode):
            return place
    raise NotForwarded(
        f"{path[:200]} is not a forwarded socket",
        why=f"they are in {folder}",
        fix="forward it there first",
    )
