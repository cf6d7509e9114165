# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One nbdkit process that serves the volumes of one machine, and the misses that it asks about.

What is in `run_dir` while it runs, so that a daemon that starts again finds it:

    nbd.sock     the exports, one per volume, by name (unless the caller chose another path)
    misses.sock  the miss protocol; gone while no daemon runs
    nbdkit.pid   the process id
    nbdkit.log   what nbdkit and the plugin say; kept after stop
    NAME.map, NAME.overlay   the volumes' files, see `volumes.volume`
    blocks.sock, blocks.log   of the block reader, in a confined room

In a confined room nbdkit sees no packs, which have chunks of every tenant. The block reader, a
process in that room that holds the folder of packs open, gives it the blocks of its own volumes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket as sockets
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import quote

from satchel.confinement import HOST, Confinement
from satchel.errors import ConflictError, SatchelError, UnsupportedError, UsageError
from satchel.paths import SOCKET_PATH_LIMIT
from satchel.process import Process
from volumes.misses import MissCounts, MissServer
from volumes.raw_blocks import RawBlocks
from volumes.volume import Resolver, Volume

PLUGIN = Path(__file__).resolve().parent / "_native" / "satchel-nbdkit-plugin.so"
BLOCK_READER = PLUGIN.with_name("satchel-block-reader")

START_SECONDS = 20.0
"""How long nbdkit may take until its socket answers."""

STOP_SECONDS = 2.0
"""How long nbdkit may take to end by itself; it waits for its clients, so it is killed then."""

SOCKET = "nbd.sock"

MISS_WAIT_SECONDS = 30
"""How long a read of an absent block waits for a daemon that is being started again."""

FIRST_FREE_DESCRIPTOR = 16
"""Programs in a confined room get sockets below this one, see sandbox/enter.py."""

_GREETING = b"NBDMAGICIHAVEOPT"
_GOODBYE = struct.pack(">I8sII", 1, b"IHAVEOPT", 2, 0)
"""Fixed newstyle, then the option NBD_OPT_ABORT."""


class NbdkitMissing(UnsupportedError):
    """nbdkit or its plugin is not installed."""


class ServerFailed(SatchelError):
    """nbdkit did not start, or has ended. It left nothing."""


class BadPath(UsageError):
    """Neither nbdkit's settings nor a Unix socket can hold this path."""


class SocketInUse(ConflictError):
    """The path of the exports is in use."""


class VolumeServer:
    """A running nbdkit and its miss server. Thread-safe.

    nbdkit is its own session and outlives the daemon: reads of what is present go on, reads of
    what is absent wait for a daemon that adopts it.
    """

    def __init__(
        self,
        run_dir: Path,
        socket: Path,
        process: Process,
        misses: MissServer,
        volumes: Sequence[Volume],
    ) -> None:
        self.run_dir = run_dir
        self.socket = socket
        self._process = process
        self._misses = misses
        self._volumes = tuple(volumes)

    @classmethod
    def start(
        cls,
        run_dir: Path,
        packs_dir: Path,
        volumes: Sequence[Volume],
        resolver: Resolver,
        *,
        socket: Path | None = None,
        miss_wait: int = MISS_WAIT_SECONDS,
        unpacked: RawBlocks | None = None,
        room: Confinement = HOST,
    ) -> Self:
        """Serve `volumes`, whose records are in `packs_dir`; returns once the socket answers.

        `resolver` is called from the miss server's threads. `socket` is where the exports are,
        by default in `run_dir`; `unpacked` keeps that store's settled content. Servers share it,
        and therefore none in a confined room gets it. room: where nbdkit runs.
        Raises NbdkitMissing, BadPath, SocketInUse or ServerFailed, and leaves no process and no
        socket then.
        """
        run_dir, packs_dir = run_dir.resolve(), packs_dir.resolve()
        socket = (socket or run_dir / SOCKET).absolute()
        source = f"reader={_reader_socket(run_dir)}" if room.confined else f"packs={packs_dir}"
        argv = _argv(run_dir, source, volumes, miss_wait)
        if not room.confined:
            argv[1:1] = ["--unix", str(socket), "--pidfile", str(_pid_file(run_dir))]
            argv += (
                [] if unpacked is None or unpacked.path is None else [f"unpacked={unpacked.path}"]
            )
        _check_length(socket, _miss_socket(run_dir), _reader_socket(run_dir))
        _make_room(socket)
        misses = MissServer.start(_miss_socket(run_dir), volumes, resolver)
        try:
            room.give(_miss_socket(run_dir))
            if room.confined:
                _start_reader(run_dir, packs_dir, volumes, room)
            process = _launch(argv, run_dir, socket, room)
        except BaseException:
            misses.close()
            raise
        return cls(run_dir, socket, process, misses, volumes)

    @classmethod
    def adopt(
        cls,
        run_dir: Path,
        volumes: Sequence[Volume],
        resolver: Resolver,
        *,
        room: Confinement = HOST,
    ) -> Self:
        """Take over the nbdkit that an earlier daemon started with the same arguments.

        `volumes` come from `open_volume`, in the order that they were started with.
        Raises ServerFailed when that process is gone.
        """
        run_dir = run_dir.resolve()
        socket = run_dir / SOCKET
        process = Process.named(_pid_file(run_dir))
        if process is None or f"misses={_miss_socket(run_dir)}" not in process.command:
            raise ServerFailed(
                f"cannot adopt the volume server in {run_dir}",
                why="its process is gone",
                fix="attach the volumes again from their last checkpoint",
            )
        misses = MissServer.start(_miss_socket(run_dir), volumes, resolver)
        room.give(_miss_socket(run_dir))
        return cls(run_dir, socket, process, misses, volumes)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def misses(self) -> MissCounts:
        """Return the counts of requests since the start or the adoption."""
        return self._misses.counts

    def uri(self, name: str) -> str:
        """The NBD URI of the volume of that name."""
        return f"nbd+unix:///{quote(name)}?socket={quote(str(self.socket))}"

    def alive(self) -> bool:
        """Whether nbdkit runs."""
        return not self._process.ended()

    def stop(self, *, remove: bool = False) -> None:
        """End nbdkit and the miss server and remove their sockets; harmless the second time.

        `remove`: the maps and overlays of the volumes too. Without it they stay.
        """
        self._process.end(STOP_SECONDS)
        self._misses.close()
        _clear(self.run_dir, self.socket)
        if remove:
            for volume in self._volumes:
                volume.remove()


def _argv(run_dir: Path, source: str, volumes: Sequence[Volume], miss_wait: int) -> list[str]:
    """nbdkit's command line, but for where it listens. Raises NbdkitMissing and BadPath."""
    nbdkit = shutil.which("nbdkit")
    if nbdkit is None:
        raise NbdkitMissing("cannot serve volumes", why="nbdkit is not installed")
    if not PLUGIN.exists():
        raise NbdkitMissing(
            "cannot serve volumes", why=f"{PLUGIN} is not there", fix="run scripts/bootstrap"
        )
    argv = [nbdkit, "--foreground", "--log=stderr", str(PLUGIN)]
    argv += [source, f"misses={_miss_socket(run_dir)}", f"miss_wait={miss_wait}"]
    for volume in volumes:
        fields = [volume.name, str(volume.size), str(volume.map_path.resolve())]
        fields += [str(volume.overlay.resolve())] + (["ro"] if volume.read_only else [])
        if any(":" in field for field in fields):
            raise BadPath(f"cannot serve volume {volume.name}", why=f"a colon in {run_dir}")
        argv.append("volume=" + ":".join(fields))
    return argv


def _check_length(*sockets: Path) -> None:
    for path in sockets:
        if len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
            raise BadPath(f"cannot listen at {path}", why=f"longer than {SOCKET_PATH_LIMIT} bytes")


def _launch(argv: list[str], run_dir: Path, socket: Path, room: Confinement) -> Process:
    """Start nbdkit and wait until it answers; nothing is left of it when this raises."""
    output = _pid_file(run_dir).with_suffix(".log")
    if room.confined:
        process = _launch_confined(argv, output, socket, room)
        _pid_file(run_dir).write_text(f"{process.pid}\n", encoding="ascii")
    else:
        process = room.start(argv, output)
    try:
        _await_greeting(process, socket)
    except BaseException:
        process.end(0)
        _clear(run_dir, socket)
        raise
    return process


def _start_reader(
    run_dir: Path, packs_dir: Path, volumes: Sequence[Volume], room: Confinement
) -> None:
    """Start the block reader. It ends with the room."""
    packs = os.open(packs_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    held = fcntl.fcntl(packs, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_DESCRIPTOR)
    os.close(packs)
    socket = _reader_socket(run_dir)
    socket.unlink(missing_ok=True)
    argv = [str(BLOCK_READER), str(held), *(str(volume.places.resolve()) for volume in volumes)]
    try:
        _launch_confined(argv, socket.with_suffix(".log"), socket, room, inherited=[held])
    finally:
        os.close(held)


def _launch_confined(
    argv: list[str], output: Path, socket: Path, room: Confinement, inherited: Sequence[int] = ()
) -> Process:
    """It can make no socket, so it gets one that listens."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as listener:
        listener.bind(str(socket))
        try:
            room.give(socket)
            listener.listen(128)
            return room.start(argv, output, listener=listener.fileno(), inherited=inherited)
        except BaseException:
            socket.unlink()
            raise


def _await_greeting(process: Process, socket: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(socket):
        ended = process.ended()
        if ended or time.monotonic() > deadline:
            cause = f"it {process.ending()}" if ended else f"no answer in {START_SECONDS:.0f} s"
            raise ServerFailed("nbdkit did not start", why=f"{cause}\n{process.report()}")
        time.sleep(0.01)


def _answers(socket: Path) -> bool:
    """Whether an NBD server is at `socket`."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
        probe.settimeout(START_SECONDS)
        try:
            probe.connect(str(socket))
            greeting = probe.recv(len(_GREETING) + 2)
            probe.sendall(_GOODBYE)
            probe.recv(1)
            return greeting.startswith(_GREETING)
        except OSError:
            return False


def _make_room(socket: Path) -> None:
    """Remove a socket where nobody listens any more. Raises SocketInUse for anything else."""
    if not os.path.lexists(socket):
        return
    if socket.is_socket() and not _answers(socket):
        socket.unlink()
        return
    raise SocketInUse(f"cannot listen at {socket}", why="something is there already")


def _clear(run_dir: Path, socket: Path) -> None:
    for path in (socket, _reader_socket(run_dir), _pid_file(run_dir)):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _pid_file(run_dir: Path) -> Path:
    return run_dir / "nbdkit.pid"


def _reader_socket(run_dir: Path) -> Path:
    return run_dir / "blocks.sock"


def _miss_socket(run_dir: Path) -> Path:
    return run_dir / "misses.sock"
