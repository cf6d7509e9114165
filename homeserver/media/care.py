# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a person does with media themselves: look at them, mend them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkstore import MediaGone
from images import Manifest
from media import (
    Media,
    MediaCheckpoint,
    MediaReport,
    SealKeys,
    found_part,
    lack_of,
    part_of,
    read_manifest,
    roots_on,
)
from replay import Log, logs_in
from satchel.errors import IntegrityError, SatchelError
from satchel.ids import OperationNumber
from satchel.progress import Progress, silent

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecoveryReport:
    """What `recover` did. generation: 0 where nothing was left to make one of.

    checkpoints: whole ones that the new generation names, by service. lost: those that are not
    whole any more, as SERVICE/ID, and what each lacks.
    """

    uuid: str
    generation: int
    records: int
    bad_places: int
    checkpoints: dict[str, str]
    lost: dict[str, str]


def media_contents(root: Path, keys: SealKeys | None = None) -> list[dict[str, Any]]:
    """The checkpoints on media: service, id, operation number, time, last operation logged, the
    generations that have it, whether one of those is whole, how many bytes were left out of it, in
    how many pieces there is what a resume reads first. The newest generation's first.

    Changes nothing. What is damaged is left out and logged. Raises MediaNotFound.
    """
    rows: list[dict[str, Any]] = []
    with Media.open(root, keys) as media:
        for checkpoint in media.checkpoints():
            try:
                manifest = read_manifest(media, checkpoint)
                part = part_of(media, checkpoint)
            except SatchelError as error:
                logger.warning("%s", error)
                continue
            rows.append(
                {
                    "service": manifest.service,
                    "checkpoint": manifest.id,
                    "operation": manifest.operation,
                    "created": manifest.created,
                    "logged": _last_logged(media.log_path(manifest.service)),
                    "generations": list(checkpoint.generations),
                    "whole": checkpoint.whole,
                    "left_out": part.left_out_bytes if part else 0,
                    "pieces": media.pieces(*manifest.first_roots()).pieces,
                }
            )
    return rows


def verify_media(
    root: Path, progress: Progress = silent, keys: SealKeys | None = None
) -> dict[str, Any]:
    """Read everything on media, and say what is hurt. Changes nothing.

    ok: whether every checkpoint of every generation is there to the last byte, or as much of it as
    is meant to be, and every log. hurt: what each checkpoint or log lacks, by name. Raises
    MediaNotFound, MediaGone.
    """
    with Media.open(root, keys) as media:
        report = media.verify(progress)
        hurt = {
            _label(checkpoint): lack
            for checkpoint in media.checkpoints()
            if (lack := _lack(media, checkpoint))
        }
        hurt |= {
            f"generation {generation.number}": generation.lacks
            for generation in media.generations()
            if not generation.whole
        }
        if not media.generations() and media.commits():
            hurt["generations"] = "none of its commits can be read"
        hurt |= _logs_hurt(root)
        return {
            "ok": not hurt and not report.bad and not report.damaged,
            "uuid": media.uuid,
            "generations": [g.number for g in media.generations()],
            **_counts(report),
            "damaged": len(report.damaged),
            "hurt": hurt,
        }


def recover_media(
    root: Path, progress: Progress = silent, keys: SealKeys | None = None
) -> RecoveryReport:
    """Make a generation of what is whole, or as much of it as was meant to be, without the help of
    what is damaged.

    Every pack is read, indexes that lie are replaced, then the newest whole checkpoint of each
    service is committed. What a generation names stays. Raises MediaNotFound where there was never
    a medium, MediaFull, MediaReadOnly, MediaGone.
    """
    Media.redescribe(root, keys)
    with Media.open(root, keys) as media:
        report = media.rebuild_indexes(progress)
        newest: dict[str, tuple[Manifest, MediaCheckpoint]] = {}
        lost: dict[str, str] = {}
        for stray in media.stray_checkpoints():
            lack = _lack(media, stray)
            checkpoint = _found_part(media, stray) if lack else stray
            if checkpoint is None:
                lost[_label(stray)] = lack
                continue
            manifest = read_manifest(media, checkpoint)
            old = newest.get(manifest.service)
            if old is None or old[0].age < manifest.age:
                newest[manifest.service] = manifest, checkpoint
        generation = _commit_again(media, newest, nothing_lost=not lost)
        return RecoveryReport(
            uuid=media.uuid,
            generation=generation,
            records=report.records,
            bad_places=len(report.bad),
            checkpoints={service: manifest.id for service, (manifest, _) in newest.items()},
            lost=lost,
        )


def _commit_again(
    media: Media, newest: dict[str, tuple[Manifest, MediaCheckpoint]], *, nothing_lost: bool
) -> int:
    """Nothing where the newest generation is this already."""
    if not newest:
        return 0
    generations = media.generations()
    wanted = {path for _, checkpoint in newest.values() for path in media.files(checkpoint)}
    if generations and generations[0].whole and set(generations[0].paths) == wanted:
        return generations[0].number
    named = [checkpoint for _, checkpoint in newest.values()]
    roots = roots_on(media, list(named))
    return media.commit(
        named, roots.carried, partial=roots.partial, keep_packs=roots.unknown or not nothing_lost
    )[0]


def _lack(media: Media, checkpoint: MediaCheckpoint) -> str:
    """What a checkpoint lacks on the medium of what is meant to be there; empty if nothing."""
    try:
        return lack_of(media, checkpoint, read_manifest(media, checkpoint))
    except MediaGone:
        raise
    except SatchelError as error:
        return str(error)


def _found_part(media: Media, checkpoint: MediaCheckpoint) -> MediaCheckpoint | None:
    """The checkpoint as one of which a part is there, if so much is there as was meant to be."""
    try:
        return found_part(media, checkpoint, read_manifest(media, checkpoint))
    except MediaGone:
        raise
    except SatchelError:
        return None


def _logs_hurt(root: Path) -> dict[str, str]:
    hurt = {}
    for path in logs_in(root / "satchel" / "log"):
        try:
            with Log.open(path, read_only=True) as log:
                for _ in log.read(OperationNumber(log.first - 1)):
                    pass
        except IntegrityError as error:
            hurt[f"log of {path.name}"] = str(error)
        except SatchelError as error:
            logger.warning("%s", error)
    return hurt


def _counts(report: MediaReport) -> dict[str, Any]:
    return {
        "records": report.records,
        "bytes": report.bytes,
        "bad": [{"pack": b.pack, "offset": b.offset, "why": b.why} for b in report.bad],
    }


def _label(checkpoint: MediaCheckpoint) -> str:
    return f"{checkpoint.service}/{checkpoint.id}"


def _last_logged(path: Path) -> int | None:
    try:
        if not Log.exists(path):
            return None
        with Log.open(path, read_only=True) as log:
            return log.last
    except SatchelError as error:
        logger.warning("%s", error)
        return None
