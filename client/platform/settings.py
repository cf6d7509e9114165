# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The settings of a client (`client.toml` in the configuration folder)."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from client.platform.limit import DEFAULT, Limit
from replay import Durability
from satchel.errors import NotFoundError
from satchel.names import BadName, check_name, host_name
from satchel.paths import config_dir, data_dir, runtime_dir, state_dir
from satchel.settings import SettingsError, require_numbers
from uplink.gateway import UplinkSettings
from wire import Identity, LocalProtocolError, Peer, verify_signer

if TYPE_CHECKING:
    from media import SealKeys

HOME = "home"
"""The name of home's replica among the feeds; of no surrogate."""

OWNER = "owner"
"""Who signs checkpoints and the keys of media, as `allowed_signers` names him."""

MACHINE_ID = Path("/etc/machine-id")

LEAST_PARK_SECONDS = 15.0
"""What the kernel remembers of a share must be over when a mount leaves."""

Policy = Literal["all", "nearest", "hedge"]
"""Who answers what changes nothing: see `client/session/reads.py`."""


@dataclass(frozen=True)
class ClientSettings:
    """Every setting has a default; a setting's comment is its documentation.

    name:             what home calls this client, with digits of its key [default: host's name]
    data:             logs of operations while no media is there
    state:            moves that were made, paths, evidence of replicas that answered otherwise than
                      home
    evidence_mib:     MiB that such evidence may take; the oldest goes first
    run:              sockets; keep the path short
    home:             the home server
    surrogates:       the surrogates that are known, by name
    allowed_signers:  who may sign checkpoints, as `owner`: `satchel-home init` prints the line; a
                      file `revoked_keys` beside it says who may not any more, as a KRL of OpenSSH
                      or one public key a line
    media:            where the medium is mounted; empty: none
    plugged_services: services whose sessions begin when a sealed medium that has them is plugged in
    media_seconds:    how often at most home's checkpoints of a replayed service come onto the
                      medium during a session, in pauses; 0: not
    durability:       `each` operation is durable in the journal before it is sent; `interval`;
                      `off`
    policy:           who answers what changes nothing: `all`; `nearest`; `hedge`, the nearest and,
                      when it takes longer than usual, the next one as well
    provisional:      how long and how many answers of surrogates are believed that home has not
                      confirmed: `60s,20`, one of the two, or `unlimited`; those with `trusted` are
                      believed anyway
    auto:             what a session does about surrogates that are near: `known`, it moves to one
                      of `surrogates` by itself where that is worth it; `ask`, it says so; `off`
    auto_mib:         MiB that a move may fetch which nobody asked for
    park_seconds:     after how many seconds without a use a mount, or a session that has no replica
                      at a surrogate, leaves home until its next use; 0: never
    later_waits:      what pre-staging and checkpoints onto the medium wait for the end of:
                      `metered`, `battery`
    teach:            whether home learns from what machines at surrogates touched what later ones
                      need; a surrogate that lies makes it bring what nobody needs
    response_seconds: how long a call waits for its first response
    uplink:           cloud storage of other programs
    """

    name: str = ""
    data: Path = field(default_factory=lambda: data_dir() / "client")
    state: Path = field(default_factory=lambda: state_dir() / "client")
    evidence_mib: int = 64
    run: Path = field(default_factory=lambda: runtime_dir() / "client")
    home: Peer = field(default_factory=Peer)
    surrogates: dict[str, Peer] = field(default_factory=dict)
    allowed_signers: Path = field(default_factory=lambda: config_dir() / "allowed_signers")
    media: str = ""
    plugged_services: tuple[str, ...] = ()
    media_seconds: float = 20.0
    durability: Durability = "each"
    policy: Policy = "all"
    provisional: str = DEFAULT
    auto: Literal["known", "ask", "off"] = "known"
    auto_mib: int = 512
    park_seconds: float = 30.0
    later_waits: tuple[str, ...] = ("metered", "battery")
    teach: bool = False
    response_seconds: float = 300.0
    uplink: UplinkSettings = field(default_factory=UplinkSettings)

    def __post_init__(self) -> None:
        """Raises BadName for names that cannot be used, SettingsError for such numbers."""
        require_numbers(
            self,
            positive=("response_seconds",),
            not_negative=("evidence_mib", "auto_mib", "media_seconds", "park_seconds"),
        )
        for peer in (self.home, *self.surrogates.values()):
            require_numbers(peer, positive=("connect_seconds", "lost_seconds"))
        if 0 < self.park_seconds < LEAST_PARK_SECONDS:
            raise SettingsError(
                f"park_seconds = {self.park_seconds:g} is too short",
                why=f"home's promises about names last up to {LEAST_PARK_SECONDS:g} s",
                fix="give more, or 0 for never",
            )
        if unknown := set(self.later_waits) - {"metered", "battery"}:
            raise SettingsError(
                "later_waits names what nothing waits for",
                why=", ".join(sorted(unknown)),
                fix="there are `metered` and `battery`",
            )
        place = os.path.expanduser(self.media)  # noqa: PTH111 (unknown users stay)
        object.__setattr__(self, "media", place)
        if place and not place.startswith("/"):
            raise SettingsError(
                f"media = {self.media!r} is in another place for each folder that you work in",
                fix="give the whole path, such as /media/stick",
            )
        Limit.parse(self.provisional)
        for name in (*self.surrogates, *([self.name] if self.name else [])):
            check_name(name, "host")
        for service in self.plugged_services:
            check_name(service, "service")
        if HOME in self.surrogates:
            raise BadName(f"{HOME} cannot name a surrogate", why="it names the home server")

    @property
    def media_keys(self) -> SealKeys:
        """The keys of sealed media that this client opens, with its SSH key where it can."""
        # What talks to the daemon gets by without them.
        from media import MEDIA_KEY_NAMESPACE, ConfinedMedium, SealKeys

        verify = partial(
            verify_signer,
            allowed_signers=self.allowed_signers,
            signer=OWNER,
            namespace=MEDIA_KEY_NAMESPACE,
        )
        return SealKeys(self.data / "media-keys", (self.home.identity,), verify, ConfinedMedium)

    @property
    def client_name(self) -> str:
        """`name`, or this host's."""
        return self.name or host_name()

    @property
    def client_id(self) -> str:
        """The name by which home tells this client apart from others: `client_name`, and digits
        of its key and of the machine. Two hosts may have one name, or one key that was copied."""
        key = ""
        with contextlib.suppress(NotFoundError, LocalProtocolError):
            key = Identity.open(self.home.identity).fingerprint
        with contextlib.suppress(OSError):
            key += MACHINE_ID.read_text().strip()
        digits = hashlib.sha256(key.encode()).hexdigest()[:8]
        return f"{self.client_name[:54].rstrip('-')}-{digits}"

    @property
    def mount_sockets(self) -> list[Path]:
        """Where the mounts of this client answer; one that was killed does not."""
        return sorted(self.run.glob("mount-*.sock"))

    def make_folders(self) -> None:
        """Make `run` and `data`, for this user alone; what is there already stays as it is."""
        for folder in (self.run, self.data):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def require_home(self, otherwise: str = "") -> Peer:
        """The home server, or NotFoundError where client.toml has none.

        otherwise: what else the reader could do
        """
        if not self.home.destination:
            fix = "run `satchel-home pair` there, and `satchel pair --home CODE --at HOST` here"
            raise NotFoundError("no home is known", fix=fix + otherwise)
        return self.home

    def surrogate(self, name: str, fix: str | None = None) -> Peer:
        """The surrogate of that name, or NotFoundError.

        fix: what the reader could do; by default, pair with it
        """
        if name not in self.surrogates:
            known = ", ".join(sorted(self.surrogates)) or "none"
            if fix is None:
                fix = f"`satchel pair CODE --at HOST --name {name}` gets to know it"
            raise NotFoundError(f"no surrogate {name}", why=f"known: {known}", fix=fix)
        return self.surrogates[name]
