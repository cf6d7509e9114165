# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A process that mounts a share, a link to home that can be cut, and a home that can begin again.

The process: SOCKET MOUNTPOINT STATE WAIT PARK NUMBERS, as a client's; with NUMBERS `same` as home's
own, whose users have the same numbers. For each line of its input it writes its status.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from homeserver.shares import ShareRegistry, Shares
from satchel.errors import SatchelError
from shares.home import ShareRecord
from shares.mount import Journals, MountedShare
from shares.node import ParkingPolicy
from shares.node.recovery import RecoveryResult
from tests.waiting import eventually
from wire import Caller

SHARE = "files"
LEASE = 2.0
NEW_BOOT = "SATCHEL_TEST_BOOT"
MAPPED, SAME = "mapped", "same"


def main(path: str, mountpoint: str, state: str, wait: str, park: str, numbers: str) -> None:
    logging.basicConfig(level=logging.INFO)
    place = Path(mountpoint)
    about = (partial(Caller, Path(path)), SHARE, place.name, place, Path(state))
    parking = ParkingPolicy(float(park)) if float(park) else None
    mounted = MountedShare(
        *about,
        limit=1 << 26,
        wait=float(wait),
        ahead=True,
        parking=parking,
        map_owner=numbers == MAPPED,
    )
    signal.signal(signal.SIGTERM, lambda *_: mounted.stop())

    def tell() -> None:
        for _ in sys.stdin:
            print(json.dumps(mounted.status()), flush=True)

    print("mounted", flush=True)
    threading.Thread(target=tell, daemon=True).start()
    try:
        mounted.run()
    except SatchelError as error:
        print(error, file=sys.stderr, flush=True)
        sys.exit(error.exit_code)


class Served:
    """Such a process. log: what it says; user: the number of its user, whose the mountpoint
    is"""

    def __init__(
        self,
        path: Path,
        mountpoint: Path,
        state: Path,
        wait: float,
        park: float = 0.0,
        *,
        user: int | None = None,
        numbers: str = MAPPED,
    ) -> None:
        self.mountpoint = mountpoint
        if user is None:
            with contextlib.suppress(FileExistsError):  # also where a dead mount is there
                mountpoint.mkdir()
        self.log = mountpoint.with_suffix(".log")
        arguments = (path, mountpoint, state, wait, park, numbers)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, *map(str, arguments)],
                **as_user(user),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout
        assert self.process.stdout.readline().strip() == "mounted", self.log.read_text()

    def status(self) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def behind(self) -> int:
        """Bytes."""
        return sum(file["home_is_behind_bytes"] for file in self.status()["files"])

    def kill(self) -> None:
        """As by kill -9. The mount goes with it."""
        self.process.kill()
        self.ended()

    def kill_all(self) -> None:
        """As systemd kills a unit: its fusermount3 as well. The mount stays, and is dead."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (*map(int, children), pid):
            os.kill(each, signal.SIGKILL)
        self.process.wait(60)

    def unmount(self) -> int:
        """As `fusermount3 -u` does; the exit code of the process."""
        subprocess.run(["fusermount3", "-u", str(self.mountpoint)], check=True)
        return self.ended()

    def stop(self) -> int:
        """As Ctrl-C does."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.ended()

    def ended(self) -> int:
        """Waits until it has; its exit code. Harmless the second time."""
        code = self.process.wait(60)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        mounts = Path("/proc/self/mounts")
        assert eventually(lambda: f" {self.mountpoint} " not in mounts.read_text())
        return code


def group_of(user: int) -> int:
    """The number of a user's one group."""
    return user + 100 if user else 0


def as_user(user: int | None) -> dict[str, Any]:
    """For subprocess: a process of that user, and of the user's group alone."""
    if user is None:
        return {}
    return {"user": user, "group": group_of(user), "extra_groups": []}


class Link:
    """Leads from one socket to another one, until it is cut. carried: when, monotonic, and how many
    bytes, both ways"""

    def __init__(self, here: Path, there: Path) -> None:
        self.path, self._there = here, there
        self._lock = threading.Lock()
        self._pairs: list[socket.socket] = []
        self._listening: socket.socket | None = None
        self.carried: list[tuple[float, int]] = []
        self.mend()

    def mend(self) -> None:
        if self._listening is not None:
            return
        self.path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.path))
        listening.listen(16)
        self._listening = listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def cut(self) -> None:
        """What is on its way is lost, and nobody gets through."""
        with self._lock:
            if self._listening is None:
                return
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            self._listening = None
            self.path.unlink(missing_ok=True)
            for end in self._pairs:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
            self._pairs.clear()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                one, _ = listening.accept()
            except OSError:
                return
            other = socket.socket(socket.AF_UNIX)
            try:
                other.connect(str(self._there))
            except OSError:
                one.close()
                continue
            with self._lock:
                if self._listening is not listening:
                    one.close()
                    other.close()
                    return
                self._pairs += [one, other]
            for source, target in ((one, other), (other, one)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    @property
    def open(self) -> bool:
        """Whether a connection leads through it."""
        with self._lock:
            return any(end.fileno() >= 0 for end in self._pairs)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.carried.append((time.monotonic(), len(data)))
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()


class World:
    """A home of one share, the link to it, and mounts on the other side of that."""

    def __init__(self, folder: Path, short: Path, log: str = "async") -> None:
        self.folder, self._socket = folder, short / "h"
        self.root = folder / "root"
        self.root.mkdir()
        self.state = folder / "state"
        self._shelf = ShareRegistry(folder / "shelf")
        self.shares = Shares(self._shelf, self._socket, LEASE)
        self.shares.add(ShareRecord(SHARE, str(self.root), log=log))
        self.link = Link(short / "l", self._socket)
        self.direct = self._socket
        self.served: list[Served] = []

    def mount(
        self, name: str = "laptop", *, wait: float = 3.0, direct: bool = False, park: float = 0.0
    ) -> Served:
        """direct: not by the link, and as another machine, with a state of its own; park: seconds
        without a use until it leaves home, 0: never."""
        path = self.direct if direct else self.link.path
        state = self.folder / "state-of-others" if direct else self.state
        self.served.append(Served(path, self.folder / name, state, wait, park))
        return self.served[-1]

    def begin_again(self) -> None:
        """Home ends, and there is another one."""
        self.shares.close()
        self.shares = Shares(self._shelf, self._socket, LEASE)

    def recover(self, told: list[str] | None = None) -> list[RecoveryResult]:
        """As `satchel share recover` does."""
        tell = (told if told is not None else []).append
        return Journals(self.state).recover(SHARE, partial(Caller, self.direct), 10.0, tell)

    def waits(self) -> dict[str, Any] | None:
        """What unmounted mounts have left."""
        found = Journals(self.state).status()
        return found[0] if found else None

    def close(self) -> None:
        self.link.mend()
        for served in self.served:
            if served.process.poll() is None:
                served.stop()
        self.link.cut()
        self.shares.close()


def write(path: Path, data: bytes, offset: int = 0) -> None:
    """By one write, and a close, whose errors are raised."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        assert os.pwrite(descriptor, data, offset) == len(data)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
