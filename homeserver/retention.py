# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Forgetting and pruning: which versions of volumes and which checkpoints of services stay.

Each volume and each service is a series of its own, to which a policy is applied. Forgetting takes
names away; the chunks go with the next prune.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from chunkstore import Catalog, CatalogEntry, NameNotFound, StoreDamaged
from satchel.errors import UsageError
from satchel.retention import RetentionPolicy, select


@dataclass(frozen=True)
class RetentionVerdict:
    """What a policy says of one version. kept: the rules that keep it; none if it goes."""

    kind: str
    name: str
    version: str
    created: str
    kept: tuple[str, ...]


def require_policy(policy: RetentionPolicy) -> None:
    """Raises UsageError for one that would forget everything."""
    if policy.empty:
        raise UsageError(
            "no --keep option says which to keep",
            why="a policy that keeps nothing would forget everything",
            fix="`satchel-home forget NAME` forgets a volume as a whole",
        )


def require_known(names: Sequence[str], known: Collection[str]) -> None:
    """Raises NameNotFound for the first name that nothing has."""
    for name in names:
        if name not in known:
            raise NameNotFound(
                f"there is no volume and no service {name}",
                fix="`satchel-home ls` and `satchel-home service ls` list them",
            )


def forget_volumes(
    catalog: Catalog, labels: Sequence[str], *, dry_run: bool
) -> list[RetentionVerdict]:
    """Forget volumes as a whole, or the versions that labels name, damaged or not. All are looked
    for before the first one goes. Raises NameNotFound, UsageError without any."""
    if not labels:
        raise UsageError("nothing is named", fix="give names of volumes, or --keep options")
    gone = {label: None for given in labels for label in catalog.labels(given)}
    verdicts = [_forgotten(catalog, label) for label in gone]
    for label in gone if not dry_run else ():
        catalog.remove(label)
    return verdicts


def _forgotten(catalog: Catalog, label: str) -> RetentionVerdict:
    name, _, version = label.partition("@")
    try:
        created = catalog.get(label).created
    except StoreDamaged:
        created = ""
    return RetentionVerdict("volume", name, version, created, ())


def judge_volumes(
    catalog: Catalog, names: Sequence[str], policy: RetentionPolicy, *, dry_run: bool
) -> list[RetentionVerdict]:
    """Apply a policy to the volumes of these names, or to all; unless `dry_run`, forget those that
    it does not keep. Names that are no volume's are passed over."""
    require_policy(policy)
    verdicts: list[RetentionVerdict] = []
    series: dict[str, list[CatalogEntry]] = {}
    for entry in catalog.versions():
        if not names or entry.name in names:
            series.setdefault(entry.name, []).append(entry)
    for name in sorted(series):
        for entry, kept in select(series[name], _created, policy):
            verdicts.append(RetentionVerdict("volume", name, entry.version, entry.created, kept))
            if not kept and not dry_run:
                catalog.remove(entry.label)
    return verdicts


def _created(entry: CatalogEntry) -> datetime:
    return datetime.fromisoformat(entry.created)
