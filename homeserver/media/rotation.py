# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Another key for a sealed medium: what is written from then on, the key before does not open.

For example, a laptop that could open the stick is lost, and the stick is not. A rotation names the
clients that may open it from now on. In this order, so that a crash at any point leaves a medium
that the key before opens whole, or the new one:

1. operations that only the medium has are logged at home; the keys that seal logs change
2. home keeps the new key, as one that the medium is about to get
3. each log is copied under the new key, to a name that nobody looks for yet
4. the file with the new key is written beside the one before: from here on it counts
5. the file of the key before is removed, then the logs under it

Packs, manifests and commits stay as they are, and each that the next generation writes is sealed
under the new key. After a crash the next rotation, with a key of its own, removes what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from homeserver.media.carry import MediaOfOthers, reconcile, refuse_others
from homeserver.media.unsealed import UnsealedPolicy
from homeserver.services.service import Service
from media import Media, PreviousSeal, Seal, SealKeys, Sign, new_seal
from replay import KeyRing, Log, remove_log
from satchel.errors import UsageError
from satchel.ids import OperationNumber


@dataclass(frozen=True)
class RotationReport:
    """What a rotation did. keys: that the medium has had; logs: copied; phrase: opens the medium
    from now on, and is written nowhere"""

    uuid: str
    keys: int
    logs: int
    phrase: str


def rotate(
    services: Sequence[Service],
    root: Path,
    keys: SealKeys,
    public_keys: Sequence[str],
    sign: Sign,
    doubtful: UnsealedPolicy = UnsealedPolicy.REFUSE,
) -> RotationReport:
    """Give the medium at `root` a key for these SSH public keys, for home and for a phrase.

    services: all that home has. sign: what clients verify. One call at a time on one medium.
    Raises UsageError for a medium in clear and for what is no key, MediaOfOthers where it has a
    service that home has not, LogBusy when a client uses it, what `reconcile` and `sign` raise,
    MediaFull, MediaReadOnly, MediaGone, OSError.
    """
    with Media.open(root, keys) as media, ExitStack() as held:
        if media.seal is None:
            raise UsageError(f"the medium at {root} has no key", why="all on it is in clear")
        _refuse_unknown(media, services)
        for service in services:
            refuse_others(media, service)
            reconcile(service, media, doubtful)
        new = new_seal(public_keys, sign=sign, before=PreviousSeal(media.uuid, media.seal))
        before = {service.name: service.log_keys.ring for service in services}
        for service in services:
            service.log_keys.change()
        _forget_abandoned(media, keys, services)
        keys.keep_next(media.uuid, new)
        stateful = [one for one in services if Log.exists(media.log_path(one.name))]
        for service in stateful:
            old = held.enter_context(_log_of(service, media, before[service.name]))
            _copy_log(service, old, new.seal)
        media.rotate(new, keys)
        _remove_logs(media, new.seal.before, [service.name for service in services])
        return RotationReport(media.uuid, len(new.seal.keys), len(stateful), new.phrase)


def _log_of(service: Service, media: Media, keys: KeyRing | None) -> Log:
    secret = media.log_secret(service.name)
    return Log.open(media.log_path(service.name), keys=keys, secret=secret)


def _copy_log(service: Service, old: Log, seal: Seal) -> None:
    """The operations that lack the seal of the service's key, which all in the copy have, are taken
    from home's log instead."""
    base = OperationNumber(old.first - 1)
    with Log.open(
        old.path.with_name(seal.log_name(service.name)),
        after=base,
        durability="off",
        keys=service.log_keys.ring,
        secret=seal.log_secret(service.name),
    ) as new:
        for found in old.read(base):
            ours = found.number not in old.doubtful
            before = OperationNumber(found.number - 1)
            new.append(found if ours else service.replayed.operations(before, 1)[0])
        new.sync()


def _refuse_unknown(media: Media, services: Sequence[Service]) -> None:
    """A log that home cannot lead on would stay under the key before."""
    ours = {service.name for service in services}
    for name in sorted({one.service for one in media.checkpoints()} - ours):
        if Log.exists(media.log_path(name)):
            raise MediaOfOthers(
                f"the medium at {media.root} has operations of {name}, which home does not have",
                fix="remove the folder `satchel` from it and make it anew, or use another",
            )


def _forget_abandoned(media: Media, keys: SealKeys, services: Sequence[Service]) -> None:
    """A rotation that did not come to its key's file has left logs that nobody looks for."""
    abandoned = keys.next_of(media.uuid)
    names = [service.name for service in services]
    seals = (media.seal.before if media.seal else ()) + ((abandoned,) if abandoned else ())
    _remove_logs(media, seals, names)


def _remove_logs(media: Media, seals: Iterable[Seal], services: Sequence[str]) -> None:
    for seal in seals:
        for name in services:
            remove_log(media.log_path(name).with_name(seal.log_name(name)))
