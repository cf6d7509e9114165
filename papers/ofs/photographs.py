# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The photo application with 45 photographs of 2 to 10 megapixels: a share, NFS and rclone.

The photographs are taken at the mobile and enhanced at home, and the mobile reads each result as
soon as it is told of. The link between is the testbed's. Programs read and write what the
application did once with Pillow, and nothing is processed: seconds are what files and link cost.

    share          two mounts, as in papers.ofs.offload; the programs keep done.txt open
    rclone mount   the mobile mounts what `rclone serve webdav` serves of home's folder
    NFS            the mobile mounts home's folder by NFS 4.2, both Debian's kernel, in a machine
                   that is emulated, because a host's kernel need not have NFS

With the last two the enhancer works in home's folder, and done.txt is opened for each read.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import Figure, figure
from papers.ofs import photo
from papers.ofs.local import served
from papers.ofs.network import Link
from papers.ofs.offload import LINKS, Session, World, counted, files_alone, shaped
from papers.ofs.photo_files import DONE, INBOX, photos
from shares.protocol import DelayedUpdate
from testbed import await_up, debian_kernel

PHOTOGRAPHS, FEW = 45, 3
PREPARED = Path("bench-out") / "ofs" / "photographs"
PORT = 8080
NFS_SECONDS = 3600.0
MOUNT_TERMS = ("--vfs-cache-mode", "writes", "--vfs-write-back", "0s", "--dir-cache-time", "1s")
SERVER_TERMS = ("--dir-cache-time", "0s")
"""By default each end keeps a listing for five minutes."""


def photograph_figures(quick: bool) -> Iterator[Figure]:
    """Seconds, bytes and early reads of each way."""
    count = FEW if quick else PHOTOGRAPHS
    prepared = prepare(PREPARED.absolute() / str(count), count)
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        folder = Path(name)
        (folder / "local").mkdir()
        local = files_alone(prepared, folder / "local", folder / "local")
        yield from _figures("local folder", count, local)
        for link in LINKS[:1] if quick else LINKS:
            where = f"{link.round_trip * 1e3:.0f} ms"
            for way, run in (("share", by_share), ("rclone", by_rclone), ("NFS", by_nfs)):
                place = folder / f"{way}-{where}".replace(" ", "-")
                place.mkdir()
                yield from _figures(f"{way}, {where}", count, run(prepared, place, link))


def _figures(way: str, count: int, run: Session) -> Iterator[Figure]:
    about = f"shares, photographs, {way}"
    yield figure(f"{about}: {count} taken", run.taken, "s")
    yield figure(f"{about}: enhanced and read", run.enhanced, "s")
    yield figure(f"{about}: from the mobile", run.sent / 1e6, "MB")
    yield figure(f"{about}: to the mobile", run.received / 1e6, "MB")
    yield figure(f"{about}: read too early", run.early, "reads")


def prepare(folder: Path, count: int) -> Path:
    """The photographs with their steps and results, made where they are missing; minutes."""
    (folder / INBOX).mkdir(parents=True, exist_ok=True)
    done = folder / DONE
    names = set(done.read_text(encoding="utf-8").split()) if done.exists() else set()
    for number in range(count):
        size = photo.PHOTOGRAPHS[number % len(photo.PHOTOGRAPHS)]
        if photo.name_of(number) not in names:
            photo.enhance(folder, photo.take(folder, number, size))
    assert len(photos(folder)) == count
    return folder


def by_share(prepared: Path, folder: Path, link: Link) -> Session:
    """The enhancer at home has a mount of its own."""
    with World(folder, link, DelayedUpdate.name) as world:
        return counted(world.pair, lambda: files_alone(prepared, world.mobile, world.other))


def by_rclone(prepared: Path, folder: Path, link: Link) -> Session:
    """WebDAV without encryption. Needs rclone."""
    root, mobile = folder / "root", folder / "mobile"
    root.mkdir()
    rclone = ["rclone", "--config", str(folder / "rclone.conf"), "--cache-dir", str(folder / "c")]
    with shaped(link) as pair, _webdav([*pair.core.prefix, *rclone], root, pair.core.address):
        remote = f":webdav,url='http://{pair.core.address}:{PORT}':"
        mount = [*pair.leaf.prefix, *rclone, "mount", remote, str(mobile), *MOUNT_TERMS]
        with served(mount, mobile):
            return counted(pair, lambda: files_alone(prepared, mobile, root, "--reopen"))


@contextlib.contextmanager
def _webdav(rclone: list[str], root: Path, address: str) -> Iterator[None]:
    argv = [*rclone, "serve", "webdav", str(root), "--addr", f"{address}:{PORT}", *SERVER_TERMS]
    log = root.parent / "webdav.log"
    with log.open("wb") as said:
        server = subprocess.Popen(argv, stderr=said)
    try:
        await_up("rclone serve", server, lambda: b"started" in log.read_bytes(), log)
        yield
    finally:
        server.terminate()
        server.wait()


def by_nfs(prepared: Path, folder: Path, link: Link) -> Session:
    """In a machine of its own (papers.ofs.nfs), where all is slower by what emulation costs."""
    result = folder / "result"
    words = (prepared, result, link.round_trip, link.rate)
    argv = [sys.executable, "-m", "papers.ofs.nfs", *map(str, words)]
    code = debian_kernel.run(
        argv,
        seconds=NFS_SECONDS,
        output=sys.stderr.fileno(),
        modules=("nfsd", "nfsv4"),
        memory="4G",
        shared=folder,
    )
    if code:
        raise subprocess.CalledProcessError(code, argv)
    return Session(**json.loads(result.read_text()))


__all__ = ["photograph_figures", "prepare"]
