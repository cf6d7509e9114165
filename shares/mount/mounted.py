# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A share as a folder of this machine's: a node behind a FUSE session."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from satchel.errors import ConflictError, NotFoundError, UnavailableError, UsageError
from satchel.files import claimed
from shares.fuse import MountSession, SessionOptions, Window, unmount_dead
from shares.mount.id_mapping import owned_by_mounter
from shares.mount.journals import LOCK, Journals, behind
from shares.node.content.buffer import Buffer
from shares.node.hub.losses import NodeLoss
from shares.node.hub.membership import Caller, ConversationOwner
from shares.node.journal.journal import MountJournal
from shares.node.journal.leftovers import read_left
from shares.node.journal.records import MountNote, this_boot
from shares.node.member import Member, ParkingPolicy
from shares.node.offloader import Offloader, OffloadReport
from shares.node.operations import Operations

log = logging.getLogger(__name__)


class MountedShare:
    """One share at one mountpoint. `run` serves it; `stop` ends that, from any thread.

    recovered: what became of what earlier mounts of the share had left
    """

    def __init__(
        self,
        call: Callable[[ConversationOwner], Caller],
        share: str,
        name: str,
        mountpoint: Path,
        state: Path,
        *,
        home: str = "",
        limit: int | None = None,
        wait: float | None = 30.0,
        ahead: bool = False,
        parking: ParkingPolicy | None = None,
        map_owner: bool = False,
        allow_other: bool = False,
    ) -> None:
        """Send home what earlier mounts of the share have left, join the share and mount it.

        call, name: as for Membership; state: where the journals of mounts are; home: a word for
        home; limit: bytes of a buffer; wait: seconds for a home that is not reached; ahead: as for
        Node; parking: as for Member; map_owner: whether whose the share is at home is who mounts it
        here (`id_mapping`), else numbers of users are the same; allow_other: as for SessionOptions.
        Raises ConflictError for a
        mountpoint in use, NotFoundError for one that is not there, UsageError for one that `state`
        is in, UnavailableError where home does not say whose the share is, and what Membership.join
        and MountSession do; nothing is left then.
        """
        unmount_dead(mountpoint)
        if not os.path.lexists(mountpoint):
            raise NotFoundError(f"no folder {mountpoint} to mount at", fix=f"mkdir {mountpoint}")
        if state.resolve().is_relative_to(mountpoint.resolve()):
            raise UsageError(
                f"{state} is inside of {mountpoint}",
                why="a mount keeps its unsent writes there, and would wait for itself",
                fix="mount at another folder",
            )
        self.share, self.mountpoint = share, mountpoint
        self._conflicts: list[str] = []
        self._locks = ExitStack()
        journals = Journals(state, home)
        try:
            self._lock(state)
            self.recovered = journals.recover(share, call, wait, log.warning)
            self._folder = journals.new(mount_key(mountpoint))
            self._locks.enter_context(claimed(self._folder / LOCK))
            try:
                self._member = self._join(
                    call, name, home, limit, wait, ahead=ahead, parking=parking
                )
                self._offloading = Offloader(self._member.node)
                self._session = self._mount(map_owner, allow_other)
            except BaseException:
                shutil.rmtree(self._folder, ignore_errors=True)
                raise
        except BaseException:
            self._locks.close()
            raise

    def _lock(self, state: Path) -> None:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = claimed(state / f"{mount_key(self.mountpoint)}.lock")
        if not self._locks.enter_context(lock):
            raise ConflictError(f"a share is mounted at {self.mountpoint} already")

    def _join(
        self,
        call: Callable[[ConversationOwner], Caller],
        name: str,
        home: str,
        limit: int | None,
        wait: float | None,
        *,
        ahead: bool,
        parking: ParkingPolicy | None,
    ) -> Member:
        journal = MountJournal(self._folder)
        member = Member(
            call,
            self.share,
            name,
            Buffer(journal.blocks, limit),
            wait=wait,
            make=Window,
            lost=self._tell,
            ahead=ahead,
            journal=journal,
            kept=self._note_conflict,
            parking=parking,
        )
        place, boot = str(self.mountpoint), this_boot()
        journal.mounted(MountNote(self.share, place, home, name, member.token, boot))
        return member

    def _mount(self, map_owner: bool, allow_other: bool) -> MountSession:
        try:
            options = SessionOptions(f"satchel:{self.share}", allow_other=allow_other)
            tree = self._mapped() if map_owner else self._member.node
            session = MountSession(tree, self.mountpoint, options)
            self._member.node.content.pages.serve(session.invalidate)
            self._member.node.kernel.serve(session.invalidate_entry)
            return session
        except BaseException:
            self._member.close()
            raise

    def _mapped(self) -> Operations:
        try:
            return owned_by_mounter(self._member.node)
        except OSError as error:
            raise UnavailableError(
                f"cannot mount the share {self.share}",
                why=f"home does not say whose it is: {error}",
            ) from error

    def run(self) -> None:
        """Serve until `stop`, or until somebody unmounts it (`fusermount3 -u`); then give back what
        is here alone, and leave the share. Raises HomeIsBehind where home is not reached for that:
        what it has not is kept, for the next mount to send."""
        left = None
        try:
            self._session.run()
        finally:
            self._session.close()
            try:
                if self._member.close():
                    left = read_left(self._folder)
                else:
                    shutil.rmtree(self._folder, ignore_errors=True)
            finally:
                self._locks.close()
        if left is not None:
            raise behind(left)

    def stop(self) -> None:
        self._session.stop()

    def status(self) -> dict[str, Any]:
        """The node's, with the share and the mountpoint. conflicts: paths of conflict copies that
        were made since it was mounted, and before that of what earlier mounts had left."""
        where = {"share": self.share, "mountpoint": str(self.mountpoint)}
        recovered = [each.status() for each in self.recovered]
        earlier = [path for each in recovered for path in each["conflicts"]]
        told = {"recovered": recovered, "conflicts": [*earlier, *self._conflicts]}
        state = {"parked": self._member.parked}
        return where | state | self._member.node.status() | told

    def offloaded(self, paths: list[str] | None) -> OffloadReport:
        """A task of this machine's went elsewhere: as Offloader has it. Raises OSError."""
        return self._offloading.offloaded(paths)

    def returned(self, paths: list[str] | None) -> OffloadReport:
        """It came back."""
        return self._offloading.returned(paths)

    def _tell(self, lost: NodeLoss) -> None:
        told = f"home went on without {lost.name} (node {lost.node}): {lost.why}"
        log.warning("the share %s: %s; %s", self.share, told, lost.restored)

    def _note_conflict(self, path: bytes) -> None:
        name = path.decode(errors="replace")
        told = "others have changed a file meanwhile: what was written here is kept as"
        log.warning("the share %s: %s %s", self.share, told, name)
        self._conflicts.append(name)


def mount_key(mountpoint: Path) -> str:
    """A short word for a mountpoint, for names of files about it."""
    return hashlib.sha256(bytes(mountpoint.absolute())).hexdigest()[:12]
