# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The settings of a surrogate (`surrogate.toml` in the configuration folder)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from satchel.names import check_name
from satchel.paths import cache_dir, data_dir, runtime_dir
from satchel.settings import require_numbers
from surrogate.caps import TenantCaps
from wire import Peer


@dataclass(frozen=True)
class SurrogateSettings:
    """Every setting has a default; a setting's comment is its documentation.

    data:              the chunk cache; losing it costs fetches, nothing else
    run:               sockets and what lives as long as a machine; keep the path short
    name:              what clients see; by default the host's name
    memory_mib:        guest memory that all replicas together may have
    disk_mib:          room that the file system of `data` must keep free
    cache_mib:         chunks that are kept; 0: a quarter of what is free when the daemon starts, at
                       most 4096. Less where `disk_mib` would not stay free; more as long as running
                       replicas need more
    cache_policy:      what goes first of them: `three-queues`, or `lru`, what was asked for longest
                       ago; `three-queues` finds more wherever a service is resumed again
    allow_emulation:   run strangers' machines without hardware virtualisation (TCG). QEMU gives
                       no isolation from a hostile guest then, so it is off unless you say so
    cell:              `auto`: each machine runs in a cell, wherever this host can make one; `off`:
                       they run with this program's rights
    cell_off_as_root:  run as root without cells, too. Whoever breaks out of a guest is root then
    max_volume_gib:    a stranger's machine has no disk larger than that
    overlay_mib:       what a machine may have written to its disks here; one that has more is
                       ended, and no other
    driver:            what makes the machines: `qemu`, `libvirt`, or `auto`, which takes root's
                       libvirt where it has just started a small machine, and says which it takes
    threads:           requests answered at once
    operation_seconds: how long one operation may take in the guest; a replica's first one, which
                       waits for most of the blocks, has an hour
    readahead_blocks:  a missing block is fetched with its neighbours, at most this many in all; as
                       many as the link carries in a round trip
    idle_minutes:      a replica whose client was not heard of for so long is ended; a client that
                       is there is heard of several times a minute
    media:             folders in which removable media appear when they are plugged in here; those
                       found directly in them, or one folder deeper, serve every replica's chunks
    authority:         the keys that certify this site's guests and hosts
    ssh_port:          of this host's sshd, for whoever is admitted and in what is announced
    announce:          tell everybody on this network by mDNS that this surrogate is here
    price:             what is announced with it, for people: `free`, `1 EUR an hour`
    peer_keys:         fingerprints (`SHA256:...`) of the keys with which other surrogates of this
                       site come for chunks; no other key gets them
    peers:             other surrogates of this site, by name. Where any is named, our chunks are
                       served to them. One without a destination has its `peers.sock` on this
                       host, forwarded by an operator, as its `socket`
    tenant:            what each tenant may have at most
    """

    data: Path = field(default_factory=lambda: cache_dir() / "surrogate")
    run: Path = field(default_factory=lambda: runtime_dir() / "surrogate")
    name: str = ""
    memory_mib: int = 2048
    disk_mib: int = 1024
    cache_mib: int = 0
    cache_policy: Literal["three-queues", "lru"] = "three-queues"
    allow_emulation: bool = False
    cell: Literal["auto", "off"] = "auto"
    cell_off_as_root: bool = False
    max_volume_gib: int = 64
    overlay_mib: int = 4096
    driver: Literal["auto", "qemu", "libvirt"] = "auto"
    threads: int = 16
    operation_seconds: float = 300.0
    readahead_blocks: int = 32
    idle_minutes: float = 15.0
    media: tuple[Path, ...] = (Path("/media"), Path("/run/media"))
    authority: Path = field(default_factory=lambda: data_dir() / "authority")
    ssh_port: int = 22
    announce: bool = False
    price: str = ""
    peer_keys: tuple[str, ...] = ()
    peers: dict[str, Peer] = field(default_factory=dict)
    tenant: TenantCaps = field(default_factory=TenantCaps)

    def __post_init__(self) -> None:
        """Raises BadName for names that cannot be used, SettingsError for such numbers."""
        require_numbers(
            self,
            positive=(
                "threads",
                "operation_seconds",
                "readahead_blocks",
                "idle_minutes",
                "max_volume_gib",
                "overlay_mib",
            ),
            not_negative=("memory_mib", "disk_mib", "cache_mib"),
        )
        for name in self.peers:
            check_name(name, "peer")

    @property
    def socket(self) -> Path:
        """Where the daemon answers its operator."""
        return self.run / "surrogate.sock"

    @property
    def answer_key(self) -> Path:
        """The key that signs what is answered here."""
        return self.data / "identity" / "answers"

    @property
    def metrics_socket(self) -> Path:
        """Where the operator's Prometheus asks."""
        return self.run / "metrics.sock"

    @property
    def tenants_folder(self) -> Path:
        """Where each tenant's API has a socket."""
        return self.run / "t"

    @property
    def peers_socket(self) -> Path:
        """Where peers get chunks."""
        return self.run / "peers.sock"

    @property
    def forwarded(self) -> Path:
        """The folder in which clients' forwarded sockets appear."""
        return self.run / "f"

    @property
    def store(self) -> Path:
        return self.data / "store"
