# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Pairing changes keys, known_hosts, allowed_signers and client.toml.

Each surrogate gets a key of its own, so that two sites cannot tell that one person came to both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from client.platform.configuration import Configuration
from client.platform.settings import HOME, OWNER, ClientSettings
from satchel.errors import ConflictError
from satchel.files import lines_of, write_lines
from satchel.names import check_name
from satchel.paths import config_dir
from wire import Address, Grant, Identity, PairRequest, authority_line, known_hosts_line, pair

_FRESH = "_new"
"""No name of a surrogate."""


@dataclass(frozen=True)
class PairingResult:
    """The peer that a pairing added. kind: `surrogate` or `home`."""

    kind: str
    name: str
    destination: str


def pair_with_surrogate(
    address: Address,
    settings: ClientSettings,
    configuration: Configuration,
    *,
    name: str = "",
    replace: bool = False,
) -> PairingResult:
    """Pair with a surrogate, and add it to client.toml.

    name: the surrogate's name here, by default its own. replace: accept other keys from a surrogate
    that is known already; it is not trusted then. Raises the errors of `wire.pair`, and
    ConflictError if another peer has that name or that place. After an error nothing has
    changed, except that an unused key may exist.
    """
    if name:
        check_name(name, "surrogate")
    folder = config_dir()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    own = _site_key(settings, folder / "keys")
    grant = pair(address, "surrogate", PairRequest(settings.client_name, own.public))
    chosen = name or grant.name
    if chosen == HOME:
        raise ConflictError(
            f"the surrogate calls itself {HOME}",
            why="that is the name of the home server",
            fix="choose another name with --name, and pair again",
        )
    destination = f"{grant.user}@{address.host}"
    known = settings.surrogates.get(chosen)
    if known and known.destination != destination:
        raise ConflictError(
            f"there is another surrogate {chosen}",
            why=f"it is {known.destination}",
            fix="choose another name with --name, and pair again",
        )
    _require_own_place(grant, address, settings, chosen)
    lines = _host_lines(grant, address)
    rekeyed = known is not None and _are_other_keys(lines, known.known_hosts)
    if rekeyed and not replace:
        raise ConflictError(
            f"{chosen} has other keys than when you paired with it",
            why="either its host was set up again, or another host answers in its place",
            fix="ask its operator; to accept the new keys, pair again with --replace",
        )
    key = _keep_key(own, folder / "keys" / chosen, grant.certificate)
    known_hosts = folder / "known_hosts.d" / chosen
    _write_known_hosts(known_hosts, lines)
    values = _peer_values(grant, address, key, known_hosts)
    configuration.merge(f"surrogates.{chosen}", values | ({"trusted": False} if rekeyed else {}))
    return PairingResult("surrogate", chosen, destination)


def pair_with_home(
    address: Address,
    settings: ClientSettings,
    configuration: Configuration,
    *,
    replace: bool = False,
) -> PairingResult:
    """Pair with the person's home, and note it in client.toml, known_hosts and allowed_signers.

    replace: forget the present home and its owner. Raises the errors of `wire.pair`, and
    ConflictError if another home or another owner is set and `replace` is false, or if a surrogate
    has that place.
    """
    own = _home_key(settings)
    peer = settings.home
    if peer.destination and peer.host.lower() != address.host.lower() and not replace:
        raise _another_home(f"it is {peer.destination}")
    grant = pair(address, HOME, PairRequest(settings.client_name, own.public))
    _require_own_place(grant, address, settings, HOME)
    lines = _host_lines(grant, address)
    if peer.destination and not replace and _are_other_keys(lines, peer.known_hosts):
        raise _another_home(f"the host keys of {address.host} are not those of your home")
    owners = [line for line in lines_of(settings.allowed_signers) if line.split()[:1] == [OWNER]]
    if grant.signer and not replace and owners not in ([], [grant.signer]):
        raise _another_home("its owner's key is not the one in allowed_signers")
    _write_known_hosts(peer.known_hosts, lines)
    if grant.signer:
        others = [line for line in lines_of(settings.allowed_signers) if line not in owners]
        write_lines(settings.allowed_signers, [*others, grant.signer], mode=0o600)
    configuration.merge(HOME, _peer_values(grant, address, own.path, peer.known_hosts))
    return PairingResult(HOME, HOME, f"{grant.user}@{address.host}")


def _another_home(why: str) -> ConflictError:
    fix = "to change to another home, pair again with --home --replace"
    return ConflictError("this client has another home", why=why, fix=fix)


def _require_own_place(grant: Grant, address: Address, settings: ClientSettings, name: str) -> None:
    """Raise ConflictError if another peer has the same host and port.

    Otherwise an attacker who controls a network's names could have his keys believed for it.
    """
    place = (address.host.lower(), grant.port)
    for other, peer in {HOME: settings.home, **settings.surrogates}.items():
        if other != name and peer.destination and (peer.host.lower(), peer.port) == place:
            raise ConflictError(
                f"{address.host} port {grant.port} is {other}",
                why="two peers cannot have the same place",
                fix=f"if {other} has moved, remove it from client.toml first",
            )


def _peer_values(
    grant: Grant, address: Address, identity: Path, known_hosts: Path
) -> dict[str, str | int]:
    return {
        "destination": f"{grant.user}@{address.host}",
        "port": grant.port,
        "socket": grant.socket,
        "identity": str(identity),
        "known-hosts": str(known_hosts),
    }


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


def _host_lines(grant: Grant, address: Address) -> list[str]:
    """The lines of known_hosts for the keys that the grant names."""
    if grant.host_authority:
        return [authority_line(address.host, grant.port, grant.host_authority)]
    return [known_hosts_line(address.host, grant.port, key) for key in grant.host_keys]


def _are_other_keys(lines: list[str], known_hosts: Path) -> bool:
    """Whether known_hosts has keys for the place of `lines`, and these are not among them."""
    place = _place(lines[0])
    known = [line for line in lines_of(known_hosts) if place in _place(line).split(",")]
    return bool(known) and not set(lines) <= set(known)


def _place(line: str) -> str:
    words = [word for word in line.split() if not word.startswith("@")]
    return words[0] if words else ""


def _write_known_hosts(path: Path, lines: list[str]) -> None:
    """Replace the file: each peer has its own, so no peer's keys count for another."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_lines(path, lines, mode=0o600)
