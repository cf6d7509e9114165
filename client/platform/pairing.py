# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a grant changes here: keys, known_hosts, allowed_signers, client.toml.

Each surrogate gets a key of its own, so that two sites cannot tell that one person came to both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from client.platform.configuration import Configuration
from client.platform.settings import HOME, ClientSettings
from satchel.errors import ConflictError
from satchel.files import lines_of, write_lines
from satchel.names import check_name
from satchel.paths import config_dir
from wire import Address, Grant, Identity, PairRequest, authority_line, known_hosts_line, pair

_FRESH = "_new"
"""No name of a surrogate."""


@dataclass(frozen=True)
class PairingResult:
    """What came of it. kind: `surrogate` or `home`."""

    kind: str
    name: str
    destination: str


def pair_with(
    address: Address, settings: ClientSettings, configuration: Configuration, *, name: str = ""
) -> PairingResult:
    """Pair, and note what was granted. name: of the surrogate here, by default its own.

    Raises as `wire.pair`, and ConflictError where another surrogate has that name; then nothing
    has changed but a key that nobody knows.
    """
    if name:
        check_name(name, "surrogate")
    folder = config_dir()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    keys: list[Identity] = []

    def request(kind: str) -> PairRequest:
        own = _home_key(settings) if kind == "home" else _site_key(settings, folder / "keys")
        keys.append(own)
        return PairRequest(settings.client_name, own.public)

    grant = pair(address, request)
    own = keys[0]
    destination = f"{grant.user}@{address.host}"
    if grant.kind == "home":
        _note_home(grant, address, settings, configuration, own)
        return PairingResult("home", HOME, destination)
    chosen = name or grant.name
    known = settings.surrogates.get(chosen)
    if known and known.destination != destination:
        raise ConflictError(
            f"there is another surrogate {chosen}",
            why=f"it is {known.destination}",
            fix="call this one otherwise with --name, and pair again",
        )
    key = _keep_key(own, folder / "keys" / chosen, grant.certificate)
    _pin(grant, address, folder / "known_hosts")
    configuration.merge(
        f"surrogates.{chosen}",
        {
            "destination": destination,
            "port": grant.port,
            "socket": grant.socket,
            "identity": str(key),
            "known-hosts": str(folder / "known_hosts"),
        },
    )
    return PairingResult("surrogate", chosen, destination)


def _note_home(
    grant: Grant,
    address: Address,
    settings: ClientSettings,
    configuration: Configuration,
    own: Identity,
) -> None:
    peer = settings.home
    _pin(grant, address, peer.known_hosts)
    if grant.signer:
        _add_line(settings.allowed_signers, grant.signer)
    configuration.merge(
        HOME,
        {
            "destination": f"{grant.user}@{address.host}",
            "port": grant.port,
            "socket": grant.socket,
            "identity": str(own.path),
            "known-hosts": str(peer.known_hosts),
        },
    )


def _home_key(settings: ClientSettings) -> Identity:
    """The client's key, made where there is none."""
    path = settings.home.identity
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        return Identity.create(path, comment=settings.client_name)
    return Identity.open(path)


def _site_key(settings: ClientSettings, folder: Path) -> Identity:
    """A key for a site, not yet at its place."""
    folder.mkdir(exist_ok=True, mode=0o700)
    for left in (folder / _FRESH, folder / f"{_FRESH}.pub"):
        left.unlink(missing_ok=True)
    return Identity.create(folder / _FRESH, comment=settings.client_name)


def _keep_key(made: Identity, path: Path, certificate: str) -> Path:
    """The key at its place, with the certificate beside it, where ssh looks for that."""
    made.path.replace(path)
    made.path.with_name(f"{_FRESH}.pub").replace(path.with_name(path.name + ".pub"))
    beside = path.with_name(path.name + "-cert.pub")
    write_lines(beside, [certificate], mode=0o600)
    return path


def _pin(grant: Grant, address: Address, known_hosts: Path) -> None:
    """Believe the site's keys at this address, and no others any more."""
    if grant.host_authority:
        lines = [authority_line(address.host, grant.port, grant.host_authority)]
    else:
        lines = [known_hosts_line(address.host, grant.port, key) for key in grant.host_keys]
    place = lines[0].removeprefix("@cert-authority ").split()[0]
    kept = [line for line in lines_of(known_hosts) if place not in _places(line)]
    write_lines(known_hosts, [*kept, *lines], mode=0o600)


def _places(line: str) -> list[str]:
    words = [word for word in line.split() if not word.startswith("@")]
    return words[0].split(",") if words else []


def _add_line(path: Path, line: str) -> None:
    old = lines_of(path)
    if line not in old:
        write_lines(path, [*old, line], mode=0o600)
