# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A share as a folder of this machine's: a node behind a FUSE session."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from satchel.errors import ConflictError, NotFoundError
from shares.fuse import Session, SessionOptions, Window
from shares.node.buffer import Buffer
from shares.node.losses import TakenOver
from shares.node.member import Member
from shares.node.membership import Caller, Ends

log = logging.getLogger(__name__)


class MountedShare:
    """One share at one mountpoint. `run` serves it; `stop` ends that, from any thread."""

    def __init__(
        self,
        call: Callable[[Ends], Caller],
        share: str,
        name: str,
        mountpoint: Path,
        cache: Path,
        *,
        limit: int | None = None,
        wait: float | None = 30.0,
        ahead: bool = False,
    ) -> None:
        """Join the share and mount it. call, name: as for Membership; cache: where folders with
        content of mounts are; limit: bytes of a buffer; wait: seconds for a home that is not
        reached; ahead: as for Node. Raises ConflictError for a mountpoint in use, NotFoundError for
        one that is not there, and what Membership.join and Session do; nothing is left then.
        """
        if not os.path.lexists(mountpoint):
            raise NotFoundError(f"no folder {mountpoint} to mount at", fix=f"mkdir {mountpoint}")
        self.share, self.mountpoint = share, mountpoint
        self._folder = cache / mount_key(mountpoint)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = (self._folder / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            raise ConflictError(f"a share is mounted at {mountpoint} already") from error
        try:
            buffer = Buffer(self._folder / "blocks", limit)
            self._member = Member(
                call, share, name, buffer, wait=wait, make=Window, lost=self._tell, ahead=ahead
            )
            try:
                options = SessionOptions(name=f"satchel:{share}")
                self._session = Session(self._member.node, mountpoint, options)
                self._member.node.content.pages.serve(self._session.invalidate)
            except BaseException:
                self._member.close()
                raise
        except BaseException:
            self._put_away()
            raise

    def run(self) -> None:
        """Serve until `stop`, or until somebody unmounts it (`fusermount3 -u`); then give back what
        is here alone, and leave the share."""
        try:
            self._session.run()
        finally:
            self._session.close()
            self._member.close()
            self._put_away()

    def stop(self) -> None:
        self._session.stop()

    def status(self) -> dict[str, Any]:
        """The node's, with the share and the mountpoint."""
        where = {"share": self.share, "mountpoint": str(self.mountpoint)}
        return where | self._member.node.status()

    def _tell(self, lost: TakenOver) -> None:
        told = f"home went on without {lost.name} (node {lost.node}): {lost.why}"
        log.warning("the share %s: %s; %s", self.share, told, lost.restored)

    def _put_away(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()


def mount_key(mountpoint: Path) -> str:
    """A short word for a mountpoint, for names of files about it."""
    return hashlib.sha256(bytes(mountpoint.absolute())).hexdigest()[:12]
