# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a person does with media themselves: find them, look at them, mend them, take them out.

A medium is known by its UUID. Wherever a path is asked for, the UUID will do: the medium is looked
for among what is mounted.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkstore import (
    Media,
    MediaCheckpoint,
    MediaDamaged,
    MediaGone,
    MediaNotFound,
    MediaReport,
    SealKeys,
    media_uuid,
)
from images import Manifest, read_manifest
from replay import Log, LogBusy, logs_in
from satchel.errors import ConflictError, IntegrityError, SatchelError, UnavailableError
from satchel.ids import CHUNK_REF_SIZE, OperationNumber
from satchel.progress import Progress, silent

logger = logging.getLogger(__name__)

MOUNTS = Path("/proc/self/mountinfo")

UNMOUNT_SECONDS = 120.0
"""How long a medium may take to write what is waiting for it."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ESCAPED = re.compile(r"\\([0-7]{3})")


class MediaBusy(ConflictError):
    """Somebody uses the medium."""


@dataclass(frozen=True)
class Mended:
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


def find_media(place: str) -> Path:
    """The folder that a path or a UUID stands for. Raises MediaNotFound."""
    if not _UUID.fullmatch(place):
        path = Path(place)
        if path.is_dir():
            return path.absolute()
        raise MediaNotFound(f"there is no folder {place}", fix="mount the medium first")
    for root in _mounted():
        if _uuid_at(root) == place:
            return root
    raise MediaNotFound(
        f"no medium {place} is mounted",
        fix="plug it in and mount it; `satchel-home media ls` shows those that are",
    )


def mounted_media(keys: SealKeys | None = None) -> list[dict[str, Any]]:
    """Every medium that is mounted: uuid, path, newest generation, free bytes."""
    rows: list[dict[str, Any]] = []
    for root in _mounted():
        if _uuid_at(root) is None:
            continue
        try:
            with Media.open(root, keys) as media:
                rows.append(
                    {
                        "uuid": media.uuid,
                        "path": str(root),
                        "generation": media.newest,
                        "checkpoints": len(media.checkpoints()),
                        "free_bytes": media.free_bytes(),
                    }
                )
        except SatchelError as error:
            logger.warning("%s", error)
    return rows


def media_contents(root: Path, keys: SealKeys | None = None) -> list[dict[str, Any]]:
    """The checkpoints on media: service, id, operation number, time, last operation logged, the
    generations that have it, whether one of those is whole, in how many pieces there is what a
    resume reads first. The newest generation's first.

    Changes nothing. What is damaged is left out and logged. Raises MediaNotFound.
    """
    rows: list[dict[str, Any]] = []
    with Media.open(root, keys) as media:
        for checkpoint in media.checkpoints():
            try:
                manifest = read_manifest(media, checkpoint)
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
                    "pieces": media.pieces(*manifest.first_roots()).pieces,
                }
            )
    return rows


def verify_media(
    root: Path, progress: Progress = silent, keys: SealKeys | None = None
) -> dict[str, Any]:
    """Read everything on media, and say what is hurt. Changes nothing.

    ok: whether every checkpoint of every generation is there to the last byte, and every log. hurt:
    what each checkpoint or log lacks, by name. Raises MediaNotFound, MediaGone.
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


def recover_media(root: Path, progress: Progress = silent, keys: SealKeys | None = None) -> Mended:
    """Make a generation of what is whole, without the help of what is damaged.

    Every pack is read, indexes that lie are replaced, then the newest whole checkpoint of each
    service is committed. What a generation names stays. Raises MediaNotFound where there was never
    a medium, MediaFull, MediaReadOnly, MediaGone.
    """
    Media.redescribe(root)
    with Media.open(root, keys) as media:
        report = media.rebuild_indexes(progress)
        newest: dict[str, tuple[Manifest, MediaCheckpoint]] = {}
        lost: dict[str, str] = {}
        for checkpoint in media.stray_checkpoints():
            if lack := _lack(media, checkpoint):
                lost[_label(checkpoint)] = lack
                continue
            manifest = read_manifest(media, checkpoint)
            old = newest.get(manifest.service)
            if old is None or old[0].age < manifest.age:
                newest[manifest.service] = manifest, checkpoint
        generation = _commit_again(media, newest, nothing_lost=not lost)
        return Mended(
            uuid=media.uuid,
            generation=generation,
            records=report.records,
            bad_places=len(report.bad),
            checkpoints={service: manifest.id for service, (manifest, _) in newest.items()},
            lost=lost,
        )


def eject_media(root: Path, keys: SealKeys | None = None) -> dict[str, Any]:
    """Make everything on media durable and unmount it, so that it can be pulled out.

    A folder that is no mount of its own is synced and stays. Raises MediaNotFound, MediaBusy when
    a client's log or another program uses it, MediaGone when what waits cannot be written.
    """
    with Media.open(root, keys) as media:
        uuid, generation = media.uuid, media.newest
    for path in logs_in(root / "satchel" / "log"):
        _require_free(path)
    _sync_file_system(root)
    unmounted = os.path.ismount(root)
    if unmounted:
        _unmount(root)
    return {
        "uuid": uuid,
        "path": str(root),
        "generation": generation,
        "unmounted": unmounted,
    }


def _commit_again(
    media: Media, newest: dict[str, tuple[Manifest, MediaCheckpoint]], *, nothing_lost: bool
) -> int:
    """Nothing where the newest generation is this already."""
    if not newest:
        return 0
    generations = media.generations()
    wanted = {path for _, checkpoint in newest.values() for path in media.paths(checkpoint)}
    if generations and generations[0].whole and set(generations[0].paths) == wanted:
        return generations[0].number
    roots = [root for manifest, _ in newest.values() for root in manifest.roots()]
    named = [checkpoint for _, checkpoint in newest.values()]
    return media.commit(named, roots, keep_packs=not nothing_lost)[0]


def _lack(media: Media, checkpoint: MediaCheckpoint) -> str:
    """What a checkpoint lacks on the medium; empty if it is whole."""
    try:
        missing = media.missing(*read_manifest(media, checkpoint).roots())
    except MediaGone:
        raise
    except SatchelError as error:
        return str(error)
    return f"{len(missing) // CHUNK_REF_SIZE} chunks are not there or damaged" if missing else ""


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


OURS = ("fuse", "fuse.satchel")
"""Types of file systems of machines' memory and of shares. One whose program hangs would hang who
looks, and there is no medium."""


def _mounted() -> Iterator[Path]:
    """Where something is mounted that has our folder. What cannot be looked at is no medium: a
    FUSE mount whose program died, somebody else's folder."""
    for line in MOUNTS.read_text().splitlines():
        if line.partition(" - ")[2].split(" ")[0] in OURS:
            continue
        path = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), line.split(" ")[4]))
        try:
            ours = (path / "satchel").is_dir()
        except OSError as error:
            logger.debug("no medium is looked for at %s: %s", path, error)
            continue
        if ours:
            yield path


def _uuid_at(root: Path) -> str | None:
    try:
        return media_uuid(root)
    except (MediaDamaged, MediaGone):
        return None


def _require_free(path: Path) -> None:
    """A client that writes the log has it locked."""
    try:
        Log.open(path, read_only=False).close()
    except LogBusy as error:
        raise MediaBusy(
            f"the medium with {path} is in use", why=str(error), fix="`satchel stop` ends it"
        ) from error
    except SatchelError as error:
        logger.warning("%s", error)


def _sync_file_system(root: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if libc.syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise MediaGone(
                f"cannot write out the medium at {root}",
                why=os.strerror(code),
                fix="`satchel-home media verify` shows what is whole",
            )
    finally:
        os.close(descriptor)


def _unmount(root: Path) -> None:
    try:
        done = subprocess.run(
            ["umount", str(root)],
            capture_output=True,
            text=True,
            timeout=UNMOUNT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(
            f"cannot unmount {root}", why=str(error), fix="it is synced; unmount it yourself"
        ) from error
    if done.returncode == 0:
        return
    why = done.stderr.strip().splitlines()[-1:] or [os.strerror(errno.EIO)]
    if "busy" in why[0]:
        fix = f"end what uses it (`fuser -vm {root}`), then eject it again; it is synced"
        raise MediaBusy(f"cannot unmount {root}", why=why[0], fix=fix)
    raise UnavailableError(
        f"cannot unmount {root}", why=why[0], fix="it is synced; unmount it yourself"
    )
