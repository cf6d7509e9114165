# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The photo application of OFS's Section 5 as a real program, at one place and at two.

Photos are taken into a folder on the mobile; then all are enhanced, while a program on the mobile
waits for each result and reads it.

    local folder   one process does both, in a folder of the machine's file system
    local, mount   the same, on a mounted share that nobody else uses
    offloaded      another node enhances, through a mount of its own: beside home, where a link is
                   between it and the mobile

The link is the testbed's, and the way to home over it is OpenSSH's, as a client's is. All programs
share this machine's processors, so the other node is no faster than the mobile: what is measured
is what the files cost. Needs root, for the link, and /dev/fuse.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench import Figure, figure
from homeserver.shares import ShareRegistry, Shares
from papers.ofs.local import LEASE, served
from papers.ofs.network import Link
from shares.home import ShareRecord
from shares.protocol import POLICIES, DelayedUpdate
from testbed import Shape, links, measure, namespaces, plain_door, sshd
from wire import Identity, SshLink

PHOTOS, FEW = 12, 4
LINKS = (Link(0.020, 20e6 / 8), Link(0.060, 20e6 / 8))
SHARE = "photos"
PATIENCE_SECONDS = 1800.0
READY_SECONDS = 20.0


@dataclass(frozen=True)
class Session:
    """Seconds until the photos were taken, and from then on until the last result was read; bytes
    that went over the link meanwhile, whole packets, from the mobile and to it. early: how often a
    program read a file that was not yet what it was to be, where that is known."""

    taken: float
    enhanced: float
    sent: int = 0
    received: int = 0
    early: int = 0


def photo_figures(quick: bool) -> Iterator[Figure]:
    """Seconds and bytes of each way to do it."""
    count = FEW if quick else PHOTOS
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        local = locally(Path(name), count)
        yield from _seconds("local folder", count, local, None)
        for link in LINKS[:1] if quick else LINKS:
            where = f"{link.round_trip * 1e3:.0f} ms"
            place = Path(name) / where.replace(" ", "-")
            with World(place / "alone", link, DelayedUpdate.name) as world:
                yield from _session(f"local, mount, {where}", count, world.alone(count), local)
            for policy in (DelayedUpdate.name,) if quick else POLICIES:
                with World(place / policy, link, policy) as world:
                    run = world.offloaded(count)
                yield from _session(f"offloaded, {where}, {policy}", count, run, local)


def _session(way: str, count: int, run: Session, local: Session) -> Iterator[Figure]:
    yield from _seconds(way, count, run, local)
    yield figure(f"shares, photo, {way}: from the mobile", run.sent / 1e3, "kB")
    yield figure(f"shares, photo, {way}: to the mobile", run.received / 1e3, "kB")


def _seconds(way: str, count: int, run: Session, local: Session | None) -> Iterator[Figure]:
    for what, seconds, other in (
        ("taken", run.taken, local and local.taken),
        ("enhanced and read", run.enhanced, local and local.enhanced),
    ):
        against = ("local folder", other) if other else None
        yield figure(f"shares, photo, {way}: {count} photos {what}", seconds, "s", against=against)


def locally(folder: Path, count: int) -> Session:
    """In a folder of the machine's own file system."""
    place = folder / "local"
    place.mkdir(parents=True)
    return _alone(place, count)


def _alone(place: Path, count: int) -> Session:
    taken = seconds_of(_program("take", place, count))
    return Session(taken, seconds_of(_program("both", place, count)))


def _program(what: str, folder: Path, count: int) -> Program:
    return Program("papers.ofs.photo", what, folder, count)


def files_alone(prepared: Path, mobile: Path, other: Path, *words: str) -> Session:
    """What papers.ofs.photo_files does, offloaded. words: before those of who looks."""
    module = "papers.ofs.photo_files"
    taken = seconds_of(Program(module, "take", prepared, mobile))
    programs = [
        Program(module, *words, "look", prepared, mobile),
        Program(module, "enhance", prepared, other),
    ]
    enhanced = seconds_of(*programs)
    return Session(taken, enhanced, early=sum(int(program.said) for program in programs))


def seconds_of(*programs: Program) -> float:
    """From when all are told to begin until the last one has ended."""
    with contextlib.ExitStack() as stack:
        for program in programs:
            stack.enter_context(program)
        for program in programs:
            program.await_ready()
        began = time.perf_counter()
        for program in programs:
            program.begin()
        for program in programs:
            program.await_end()
        return time.perf_counter() - began


class Program:
    """A process of a module with these words, which waits for a line before it begins.

    said: what it printed from then on, once it has ended
    """

    def __init__(self, module: str, *words: object) -> None:
        self._argv = [sys.executable, "-m", module, "--wait", *map(str, words)]
        self.said = ""

    def __enter__(self) -> Program:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._argv, text=True, stdin=pipe, stdout=pipe)
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    def await_ready(self) -> None:
        assert self._process.stdout
        self._process.stdout.readline()

    def begin(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def await_end(self) -> None:
        """Raises CalledProcessError, TimeoutExpired."""
        code = self._process.wait(PATIENCE_SECONDS)
        if code:
            raise subprocess.CalledProcessError(code, self._argv)
        assert self._process.stdout
        self.said = self._process.stdout.read()


@contextlib.contextmanager
def shaped(link: Link) -> Iterator[measure.Pair]:
    """The mobile as the leaf, and home as the core, with this link between."""
    with contextlib.closing(links.open_links()) as maker, measure.pair(maker) as pair:
        rate = round(link.rate * 8)
        shape = Shape(rate, link.round_trip / 2, queue=links.queue_for(rate))
        pair.link.shape(up=shape, down=shape)
        yield pair


def counted(pair: measure.Pair, run: Callable[[], Session]) -> Session:
    """What `run` returns, with the bytes that went over the link meanwhile."""
    before = pair.link.counters()
    session = run()
    after = pair.link.counters()
    sent, received = (after[way].bytes - before[way].bytes for way in links.WAYS)
    return replace(session, sent=sent, received=received)


class World:
    """A home, the way to it over a link, and two mounts: the mobile's over the link, the other
    node's beside home.

    root: home's folder; mobile, other: the mounts; pair: the hosts, with the link
    """

    def __init__(self, folder: Path, link: Link, policy: str) -> None:
        """Nothing is made yet."""
        self.root, self.mobile, self.other = (folder / w for w in ("root", "mobile", "other"))
        self._folder, self._shaped, self._policy = folder, link, policy
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> World:
        with contextlib.ExitStack() as stack:
            short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-")))
            self.root.mkdir(parents=True)
            shares = Shares(ShareRegistry(self._folder / "shelf"), short / "home", LEASE)
            stack.callback(shares.close)
            shares.add(ShareRecord(SHARE, str(self.root), policy=self._policy))
            self.pair = stack.enter_context(shaped(self._shaped))
            self._forward(stack, short)
            for place, socket in ((self.mobile, "mobile"), (self.other, "home")):
                cache = self._folder / f"cache-{place.name}"
                argv = [sys.executable, "-m", "papers.ofs.local", str(short / socket), SHARE]
                stack.enter_context(served([*argv, str(place), str(cache)], place))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def alone(self, count: int) -> Session:
        """All of it on the mobile."""
        return counted(self.pair, lambda: _alone(self.mobile, count))

    def offloaded(self, count: int) -> Session:
        """The other node enhances; the mobile reads what comes of it."""

        def run() -> Session:
            taken = seconds_of(_program("take", self.mobile, count))
            look, enhance = (self.mobile, "look"), (self.other, "enhance")
            programs = [_program(what, place, count) for place, what in (look, enhance)]
            return Session(taken, seconds_of(*programs))

        return counted(self.pair, run)

    def _forward(self, stack: contextlib.ExitStack, short: Path) -> None:
        """Home's socket at the mobile, as `satchel mount` has it."""
        leaf, core = self.pair.leaf, self.pair.core
        identity = Identity.create(short / "key")
        daemon = sshd.Sshd.start(
            short / "sshd",
            authorized=[identity.public],
            address=core.address,
            port=22,
            prefix=core.prefix,
            door=plain_door(short),
        )
        stack.enter_context(daemon)
        host = daemon.host("home", identity.path, short / "known")

        def connect() -> SshLink:
            ssh = SshLink.open(host, timeout=READY_SECONDS)
            ssh.reach(short / "mobile", "home")
            return ssh

        stack.callback(namespaces.inside(leaf.namespace, connect).close)


__all__ = [
    "LINKS",
    "Program",
    "Session",
    "World",
    "counted",
    "files_alone",
    "locally",
    "photo_figures",
    "seconds_of",
    "shaped",
]
