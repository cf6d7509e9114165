# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A RAM volume as a file: nbdfuse makes one of an NBD export, and a machine maps it.

The kernel reads a page when the guest touches it first, and writes it back some time after the
guest has changed it. What would spoil that, and what is done about it:

- Read-ahead: around each page the kernel would read 128 KB. Set to 0; but for a first boot on a
  volume of zeros, which costs nothing to read, it halves the time, so mount() can leave it.
- Write-back limits: the kernel trusts FUSE with 1 % of its dirty memory, and lets a writer sleep
  beyond that. The first limit is lifted, and the second where it can be, on Linux 6.2 and later.
  (This and the read-ahead need root; see `tuned`.)
- Each open() of a FUSE file throws away its pages, those that a machine has mapped as well. With
  the option kernel_cache it does not. That is right here: nothing else writes to the export.
- nbdfuse has four connections that take requests in turn, and one that waits for an answer takes no
  other: a write-back may wait as long as a page that the machine waits for.
- A server that does not answer holds up everybody who waits for a page or for write-back, beyond
  all signals. Ending nbdfuse frees them: abort().
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from satchel.confinement import HOST, Confinement
from satchel.errors import UnavailableError
from satchel.process import PreparedProgram, Process

FIRST_BOOT_READ_AHEAD_KIB = 128
"""What the kernel itself would take. Without it a first boot takes about twice as long."""

READY = ".ready"
"""MOUNTPOINT.ready: nbdfuse fills it, in a confined room, when it serves."""

MOUNT_SECONDS = 30.0
UNMOUNT_SECONDS = 20.0
"""How long unmount() waits for what is dirty to be written back before it aborts."""

_GRACE_SECONDS = 0.5
_END_SECONDS = 5.0
_POLL_SECONDS = 0.005
_FILE = "ram"
_MOUNTED = Path("/dev/fd/9")
"""What nbdfuse calls a mount that satchel.confinement made for it."""
_TUNING = {"max_ratio": "100", "strict_limit": "0"}


class RamMountFailed(UnavailableError):
    """The export cannot be mounted, or its dirty blocks cannot be written."""


class RamMount:
    """One mounted RAM volume, with one owner. The mount outlives the owner and can be adopted.

    file: what a machine maps. tuned: whether the kernel let us set read-ahead and limits; without
    that everything works, but a resumed machine reads up to 32 times what it touches.
    Beside the mount point lie MOUNTPOINT.pid and MOUNTPOINT.log until unmount().
    """

    def __init__(
        self, mountpoint: Path, nbdfuse: Process, read_ahead_kib: int = 0, room: Confinement = HOST
    ) -> None:
        self.file = mountpoint / _FILE
        self._mountpoint = mountpoint
        self._nbdfuse = nbdfuse
        self._room = room
        self.tuned = _tune(
            _device(mountpoint, room), {"read_ahead_kb": str(read_ahead_kib), **_TUNING}
        )

    @classmethod
    def mount(
        cls, uri: str, mountpoint: Path, *, read_ahead_kib: int = 0, room: Confinement = HOST
    ) -> RamMount:
        """Mount the export at `uri` in the folder `mountpoint`, which is made if need be.

        read_ahead_kib: how much the kernel reads where it needs one page. 0 for a resumed machine,
        FIRST_BOOT_READ_AHEAD_KIB for a first boot. room: where nbdfuse runs; in a confined one
        MOUNTPOINT.ready exists and may be written, and only its programs see the mount.
        Raises RamMountFailed, with what nbdfuse said, and leaves nothing behind then.
        """
        mountpoint = mountpoint.absolute()
        mountpoint.mkdir(exist_ok=True)
        pid_file = _pid_file(mountpoint)
        pid_file.unlink(missing_ok=True)
        ready = mountpoint.with_name(mountpoint.name + READY) if room.confined else pid_file
        file = _MOUNTED if room.confined else mountpoint
        command = ["nbdfuse", "-P", str(ready), *_mount_options(room)]
        command += [str(file / _FILE), uri]
        nbdfuse = None
        try:
            fuse = mountpoint if room.confined else None
            nbdfuse = room.start(command, _log_file(mountpoint), fuse=fuse)
            if room.confined:
                pid_file.write_text(f"{nbdfuse.pid}\n", encoding="ascii")
            _await_ready(nbdfuse, ready, mountpoint, room)
            return cls(mountpoint, nbdfuse, read_ahead_kib, room)
        except BaseException as error:
            if nbdfuse is not None:
                _end(nbdfuse)
            if not room.confined:
                _detach(mountpoint)
            _remove(mountpoint)
            if isinstance(error, OSError):
                raise RamMountFailed(f"cannot mount {uri}", why=str(error)) from error
            raise

    @classmethod
    def adopt(cls, mountpoint: Path, room: Confinement = HOST) -> RamMount:
        """The mount that an earlier process of ours left there. Raises RamMountFailed."""
        mountpoint = mountpoint.absolute()
        nbdfuse = Process.named(_pid_file(mountpoint))
        ready = mountpoint.with_name(mountpoint.name + READY)
        wanted = str(ready if room.confined else mountpoint / _FILE)
        if nbdfuse is not None and wanted in nbdfuse.command:
            return cls(mountpoint, nbdfuse, room=room)
        raise RamMountFailed(f"nothing of ours is mounted at {mountpoint}")

    def prepare_sync(self) -> PreparedProgram:
        """For a `sync` that somebody waits for: a start in a confined room takes a while."""
        return self._room.prepare(["sync", str(self.file)])

    def sync(self, prepared: PreparedProgram | None = None) -> None:
        """Write all that the machine has changed to the export, and flush it. What it changes
        meanwhile, if it runs, may be left out.

        A program of its own does that. Nothing ends a process while one of its threads waits here,
        and until then its sockets stay open: had a daemon's thread waited, whoever asks a daemon
        that was killed for a block would go on waiting for an answer, this write-back with them.
        Raises RamMountFailed; what could not be written is lost to the export then.
        """
        done = (prepared or self.prepare_sync()).run()
        if done.returncode != 0:
            why = f"{done.stderr.strip()}; {self._nbdfuse.tail()}"
            raise RamMountFailed(f"cannot write the RAM in {self.file} back", why=why)

    def abort(self) -> None:
        """Free whoever waits for this file, at the price of all that is dirty. Never blocks.

        A machine that maps it ends with SIGBUS at its next new page. unmount() is still needed.
        """
        self._nbdfuse.signal(signal.SIGKILL)

    def unmount(self) -> None:
        """Unmount, end nbdfuse, remove the folder. What was not synced may be lost.

        The machine should be stopped before. Does not raise for a mount that is gone already.
        """
        if self._room.confined or not _detach(self._mountpoint):
            self.abort()
        _end(self._nbdfuse)
        if not self._room.confined:  # else the mount goes with the room
            _detach(self._mountpoint)
        _remove(self._mountpoint)


def _mount_options(room: Confinement) -> list[str]:
    """As root, machines may have users of their own. Who cannot enter the folder sees no mount. In
    a confined room they have nbdfuse's."""
    others = os.geteuid() == 0 and not room.confined
    return ["-o", "kernel_cache", *(["-o", "allow_other"] if others else [])]


def _pid_file(mountpoint: Path) -> Path:
    return mountpoint.with_name(mountpoint.name + ".pid")


def _log_file(mountpoint: Path) -> Path:
    return mountpoint.with_name(mountpoint.name + ".log")


def _await_ready(nbdfuse: Process, ready: Path, mountpoint: Path, room: Confinement) -> None:
    deadline = time.monotonic() + MOUNT_SECONDS
    while not (ready.exists() and ready.stat().st_size and _device(mountpoint, room)):
        if nbdfuse.ended():
            why = f"nbdfuse {nbdfuse.ending()}\n{nbdfuse.report()}"
            raise RamMountFailed(f"cannot mount the RAM at {mountpoint}", why=why)
        if time.monotonic() > deadline:
            why = f"not there after {MOUNT_SECONDS:g} s\n{nbdfuse.report()}"
            raise RamMountFailed(f"cannot mount the RAM at {mountpoint}", why=why)
        time.sleep(_POLL_SECONDS)


def _device(mountpoint: Path, room: Confinement = HOST) -> str:
    """MAJOR:MINOR of what is mounted there; empty if nothing is."""
    wanted = bytes(mountpoint)
    for plain in (b"\\", b" ", b"\t", b"\n"):
        wanted = wanted.replace(plain, b"\\%03o" % plain[0])
    for line in room.mountinfo.read_bytes().splitlines():
        fields = line.split()
        if fields[4] == wanted:
            return fields[2].decode("ascii")
    return ""


def _tune(device: str, values: dict[str, str]) -> bool:
    folder = Path("/sys/class/bdi") / device
    try:
        for name, value in values.items():
            if name != "strict_limit" or (folder / name).exists():
                (folder / name).write_text(value, encoding="ascii")
    except OSError:
        return False
    return True


def _detach(mountpoint: Path) -> bool:
    """Unmount if mounted, lazily if somebody still maps the file; whether that came to an end."""
    if not _device(mountpoint):
        return True
    for options in ("-u", "-uz"):
        quiet = subprocess.DEVNULL
        tool = subprocess.Popen(
            ["fusermount3", "-q", options, str(mountpoint)], stdout=quiet, stderr=quiet
        )
        try:
            tool.wait(UNMOUNT_SECONDS)
        except subprocess.TimeoutExpired:
            tool.kill()
            return False
        if not _device(mountpoint):
            return True
    return False


def _end(nbdfuse: Process) -> None:
    """After an unmount it ends by itself, unless another mount namespace keeps a copy."""
    if not nbdfuse.ended(_GRACE_SECONDS):
        nbdfuse.end(_END_SECONDS, _END_SECONDS)


def _remove(mountpoint: Path) -> None:
    _pid_file(mountpoint).unlink(missing_ok=True)
    _log_file(mountpoint).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        mountpoint.rmdir()
