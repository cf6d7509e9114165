# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The settings of a home server (`home.toml` in the configuration folder)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from homeserver.machine_options import MachineOptions
from satchel.errors import NotFoundError
from satchel.names import check_name
from satchel.paths import SHARE_SOCKET, cache_dir, data_dir, runtime_dir
from satchel.retention import RetentionPolicy
from satchel.settings import require_numbers
from uplink.helper import HelpedService

if TYPE_CHECKING:
    from media import SealKeys

DOOR_SOCKET = "door.sock"


@dataclass(frozen=True)
class HomeSettings:
    """Every setting has a default; a setting's comment is its documentation.

    data:              the store, services and keys
    images:            built images; they can be built again
    run:               sockets and what lives as long as a machine; keep the path short
    keep_checkpoints:  how many checkpoints of a service are kept, the newest first; the log leads
        on from these
    keep_hourly:       for so many hours, the newest checkpoint of each is kept too
    keep_daily:        the same for days
    keep_weekly:       the same for weeks
    keep_monthly:      the same for months
    keep_yearly:       the same for years
    checkpoint_minutes: a service that was used gets a checkpoint after this time, in a pause if
        one comes soon; 0: only `checkpoint` takes one
    checkpoint_operations: and after this number of operations; 0: by time only
    verify_days:       how often home checks its store; 0: never
    prune_days:        how often it prunes its store; 0: never
    notify:            places that get a notice of each problem: `desktop`, `mailto:ADDRESS`, a
        webhook `https://HOST/PATH`, or `ntfy:https://HOST/TOPIC`
    checkpoint_days:   so long a checkpoint is used where home cannot be asked, as on a stick that
        was found again; 0: for ever
    log_key_days:      after so many days logs on media get another key, and what was written under
        the one before counts for as long again; 0: only `media rotate` and `unpair` change it
    driver:            what makes the machines: `qemu`, `libvirt`, or `auto`, which takes root's
        libvirt where it has just started a small machine, and says which it takes
    threads:           requests answered at once
    boot_seconds:      how long a service may take from its first boot until it listens; a whole
        disk has four times as long
    operation_seconds: how long one operation may take in the guest
    lease_seconds:     after how long without a word a client no longer holds its service
    share_lease_seconds: after how long without a word a node of a share is lost; what it had and
        what the write log says is home's then
    settle:            compress the store in the background, with what nobody else needs of the
                       processor; `satchel-home settle` does it at once
    unpacked_mib:      blocks of settled content that machines have read are kept for the next that
        reads them, at most so many and a sixteenth of what is free; gone when the daemon ends.
        Machines in cells share none of it
    plugged_sync:      bring the newest checkpoints onto a sealed medium of this home's when it is
        plugged in, and say on the desktop when it can be pulled out
    cell:              `auto`: each machine runs in a cell, wherever this host can make one; `off`:
                       they run with this program's rights
    cell_off_as_root:  run as root without cells, too. Whoever breaks out of a guest is root then,
                       and has the owner's key
    accelerator:       what machines run under here, whatever recipes say: `kvm`, `tcg` (emulation),
        or `auto`, KVM where it works and else emulation; empty: as the recipe says
    vcpus:             processors of a machine at its first boot; 0: as the recipe says
    memory_mib:        memory of a machine at its first boot; 0: as the recipe says
    uplink:            cloud services that home asks for `satchel uplink`, by their names there
    """

    data: Path = field(default_factory=lambda: data_dir() / "home")
    run: Path = field(default_factory=lambda: runtime_dir() / "home")
    images: Path = field(default_factory=lambda: cache_dir() / "images")
    keep_checkpoints: int = 2
    keep_hourly: int = 0
    keep_daily: int = 0
    keep_weekly: int = 0
    keep_monthly: int = 0
    keep_yearly: int = 0
    checkpoint_minutes: int = 360
    checkpoint_operations: int = 10_000
    verify_days: int = 30
    prune_days: int = 7
    notify: tuple[str, ...] = ()
    checkpoint_days: int = 180
    log_key_days: int = 30
    driver: Literal["auto", "qemu", "libvirt"] = "auto"
    threads: int = 16
    boot_seconds: float = 300.0
    operation_seconds: float = 300.0
    lease_seconds: float = 60.0
    share_lease_seconds: float = 10.0
    settle: bool = True
    unpacked_mib: int = 1024
    plugged_sync: bool = False
    cell: Literal["auto", "off"] = "auto"
    cell_off_as_root: bool = False
    accelerator: Literal["", "auto", "kvm", "tcg"] = ""
    vcpus: int = 0
    memory_mib: int = 0
    uplink: dict[str, HelpedService] = field(default_factory=dict)

    def __post_init__(self) -> None:
        positive = ("keep_checkpoints", "threads", "boot_seconds", "operation_seconds")
        require_numbers(
            self,
            positive=(*positive, "lease_seconds", "share_lease_seconds"),
            not_negative=(
                *("unpacked_mib", "checkpoint_days", "log_key_days", "checkpoint_minutes"),
                *("checkpoint_operations", "verify_days", "prune_days"),
            ),
        )
        _ = self.policy, self.machine  # their numbers are checked
        for name in self.uplink:
            check_name(name, "service")

    @property
    def media_keys(self) -> SealKeys:
        """The keys of sealed media that were made here."""
        from media import ConfinedMedium, SealKeys

        return SealKeys(self.data / "media-keys", in_clear=ConfinedMedium)

    @property
    def policy(self) -> RetentionPolicy:
        """Which checkpoints stay when a new one is taken."""
        return RetentionPolicy(
            last=self.keep_checkpoints,
            hourly=self.keep_hourly,
            daily=self.keep_daily,
            weekly=self.keep_weekly,
            monthly=self.keep_monthly,
            yearly=self.keep_yearly,
        )

    @property
    def machine(self) -> MachineOptions:
        """What is wished of every machine here."""
        return MachineOptions(self.accelerator, self.vcpus, self.memory_mib)

    @property
    def socket(self) -> Path:
        """Where the daemon answers."""
        return self.run / "home.sock"

    @property
    def door_socket(self) -> Path:
        """The socket for paired clients, whose requests cannot name paths of this host."""
        return self.socket.with_name(DOOR_SOCKET)

    @property
    def metrics_socket(self) -> Path:
        """Where the owner's Prometheus asks."""
        return self.run / "metrics.sock"

    @property
    def share_socket(self) -> Path:
        """Where nodes join shares: beside the daemon's, so that who knows that one knows this."""
        return self.socket.with_name(SHARE_SOCKET)

    @property
    def share_grants(self) -> Path:
        """Which surrogates may use shares, for which services."""
        return self.data / "share-grants.json"

    @property
    def shares(self) -> Path:
        return self.data / "shares"

    @property
    def store(self) -> Path:
        return self.data / "store"

    @property
    def services(self) -> Path:
        return self.data / "services"

    @property
    def identity(self) -> Path:
        """The owner's key, which signs manifests."""
        return self.data / "identity" / "owner"

    def require_home(self) -> None:
        """Raises NotFoundError where there is no home."""
        if not self.identity.exists():
            raise NotFoundError(f"no home at {self.data}", fix="`satchel-home init` makes one")
