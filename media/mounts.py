# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Media among what is mounted on this machine: found, waited for, unmounted.

A medium is known by its UUID. Wherever a path is asked for, the UUID will do: the medium is looked
for among what is mounted.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkstore import MediaDamaged, MediaGone, MediaNotFound
from media.medium import Media, MediaCheckpoint, media_uuid, seal_at
from media.seal import SealKeys
from satchel.errors import AccessError, ConflictError, SatchelError, UnavailableError

logger = logging.getLogger(__name__)

MOUNTS = Path("/proc/self/mountinfo")

UNMOUNT_SECONDS = 120.0
"""How long a medium may take to write what is waiting for it."""

MOUNT_SECONDS = 60.0
"""How long a device that was plugged in may take until it is mounted."""

DESKTOP_SECONDS = 5.0
"""How long a desktop may take to mount what was plugged in, before UDisks is asked to."""

MOUNT_POLL_SECONDS = 0.2

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ESCAPED = re.compile(r"\\([0-7]{3})")


class MediaBusy(ConflictError):
    """Another program uses the medium."""


class MediaCloned(ConflictError):
    """Two mounted media have one UUID."""

    def __init__(self, uuid: str, places: Sequence[Path]) -> None:
        super().__init__(
            f"several media with the UUID {uuid} are mounted",
            why=f"at {' and at '.join(str(place) for place in places)}; one is a copy of the other",
            fix="unmount one, or name the path; to make a copy a medium of its own, remove its "
            "folder `satchel` and run `satchel-home media init`",
        )
        self.places = tuple(places)


class MediaInClear(AccessError):
    """A plugged-in medium is not sealed."""


def find_media(place: str) -> Path:
    """The folder that a path, a UUID or a block device stands for. Raises MediaNotFound, and
    MediaCloned if several media have that UUID."""
    path = Path(place)
    if _UUID.fullmatch(place):
        root = _only(place, _media_of(place))
    elif path.is_block_device():
        root = _mounted_from(path)
    elif path.is_dir():
        return path.absolute()
    else:
        raise MediaNotFound(f"there is no folder {place}", fix="mount the medium first")
    if root is None:
        raise MediaNotFound(
            f"no medium {place} is mounted",
            fix="plug it in and mount it; `satchel-home media ls` shows those that are",
        )
    return root


def await_media(place: str, seconds: float = MOUNT_SECONDS) -> Path | None:
    """The same as soon as it is mounted, which a desktop does that sees a device, or else UDisks
    when it is asked. None for what is mounted and no medium. Raises MediaNotFound after
    `seconds`."""
    deadline, asked = time.monotonic() + seconds, not Path(place).is_block_device()
    while True:
        try:
            root = find_media(place)
        except MediaNotFound:
            if time.monotonic() > deadline:
                raise
            if not asked and time.monotonic() > deadline - seconds + DESKTOP_SECONDS:
                asked = True
                _ask_to_mount(place)
            time.sleep(MOUNT_POLL_SECONDS)
        else:
            return root if (root / "satchel" / "media.json").is_file() else None


def mounted_media(keys: SealKeys | None = None) -> list[dict[str, Any]]:
    """Return every medium that is mounted: uuid, path, newest generation, free bytes, and the paths
    of other media with its UUID (copies). A medium in clear is not opened, as no person has named
    it: generation and checkpoints are None."""
    rows: list[dict[str, Any]] = []
    for root in _mounted():
        uuid = _uuid_at(root)
        if uuid is None:
            continue
        copies = [str(other) for other in _copies(uuid, root)]
        row: dict[str, Any] = {"uuid": uuid, "path": str(root), "generation": None}
        row |= {"checkpoints": None, "free_bytes": None, "copies": copies}
        try:
            if seal_at(root, keys) is None:
                row["free_bytes"] = shutil.disk_usage(root).free
            else:
                with Media.open(root, keys) as media:
                    row |= {"generation": media.newest, "checkpoints": len(media.checkpoints())}
                    row["free_bytes"] = media.free_bytes()
        except (SatchelError, OSError) as error:
            logger.warning("%s", error)
        else:
            rows.append(row)
    return rows


def sealed_media(keys: SealKeys) -> list[Path]:
    """Return where media are mounted that are sealed and that `keys` opens, one place for each. A
    copy of another one is among them."""
    found: list[Path] = []
    for root in _mounted():
        try:
            if _uuid_at(root) and seal_at(root, keys) is not None:
                found += [] if any(_same(root, other) for other in found) else [root]
        except (SatchelError, OSError) as error:
            logger.debug("the medium at %s is not used: %s", root, error)
    return found


def mount_table() -> str:
    """Return a text that differs when something was mounted or unmounted."""
    return MOUNTS.read_text()


def require_sealed(root: Path, keys: SealKeys) -> list[MediaCheckpoint]:
    """Return the checkpoints on a medium that is used because it was plugged in, and not because a
    person named it. Raises MediaInClear if it is not sealed, MediaCloned if another medium with its
    UUID is mounted, and the errors of Media.open."""
    uuid = _uuid_at(root)
    if uuid and (others := _copies(uuid, root)):
        raise MediaCloned(uuid, [root, *others])
    if seal_at(root, keys) is None:
        raise MediaInClear(
            f"the medium at {root} is not used by itself",
            why="it is not sealed, so a stranger may have written it and may read it",
            fix="name it in a command: `satchel-home media sync PATH`, "
            "`satchel run SERVICE --media PATH`",
        )
    with Media.open(root, keys) as media:
        return media.checkpoints()


def release_media(root: Path) -> bool:
    """Make everything on it durable, and unmount it; whether it was mounted. A folder that is no
    mount of its own stays. Raises MediaBusy, MediaGone when what waits cannot be written,
    UnavailableError when it is written and stays mounted."""
    _sync_file_system(root)
    unmounted = os.path.ismount(root)
    if unmounted:
        _unmount(root)
    return unmounted


OURS = ("fuse", "fuse.satchel")
"""Types of file systems of machines' memory and of shares. One whose program hangs would hang who
looks, and there is no medium."""


@dataclass(frozen=True)
class _Mount:
    """A line of mountinfo. device: MAJOR:MINOR"""

    root: Path
    device: str


def _mounts() -> Iterator[_Mount]:
    for line in MOUNTS.read_text().splitlines():
        fields = line.split(" ")
        if line.partition(" - ")[2].split(" ")[0] not in OURS:
            root = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4])
            yield _Mount(Path(root), fields[2])


def _mounted() -> Iterator[Path]:
    """Where something is mounted that has our folder. What cannot be looked at is no medium: a
    FUSE mount whose program died, somebody else's folder."""
    for mount in _mounts():
        try:
            ours = (mount.root / "satchel").is_dir()
        except OSError as error:
            logger.debug("no medium is looked for at %s: %s", mount.root, error)
            continue
        if ours:
            yield mount.root


def _media_of(uuid: str) -> list[Path]:
    """Return the mount points of media of that UUID, one for each medium."""
    found: list[Path] = []
    for root in _mounted():
        if _uuid_at(root) == uuid and not any(_same(root, other) for other in found):
            found.append(root)
    return found


def _copies(uuid: str, root: Path) -> list[Path]:
    """Return the mount points of the other media with the UUID of the medium at `root`."""
    return [other for other in _media_of(uuid) if not _same(root, other)]


def _same(root: Path, other: Path) -> bool:
    """Whether two paths lead to one medium, by different mounts or by one."""
    try:
        return (root / "satchel").samefile(other / "satchel")
    except OSError:
        return False


def _only(uuid: str, roots: Sequence[Path]) -> Path | None:
    if len(roots) > 1:
        raise MediaCloned(uuid, roots)
    return roots[0] if roots else None


def _mounted_from(device: Path) -> Path | None:
    number = device.stat().st_rdev
    name = f"{os.major(number)}:{os.minor(number)}"
    return next((mount.root for mount in _mounts() if mount.device == name), None)


def _ask_to_mount(device: str) -> None:
    """What comes of it is seen among what is mounted."""
    argv = ["udisksctl", "mount", "--no-user-interaction", "--block-device", device]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=UNMOUNT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.info("UDisks does not mount %s: %s", device, error)
    else:
        logger.debug("UDisks, asked to mount %s: %s%s", device, done.stdout, done.stderr)


def _uuid_at(root: Path) -> str | None:
    try:
        return media_uuid(root)
    except (MediaDamaged, MediaGone):
        return None


def _sync_file_system(root: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if libc.syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise MediaGone(
                f"cannot write out the medium at {root}",
                why=os.strerror(code),
                fix="`satchel-home media verify` lists the intact parts",
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
