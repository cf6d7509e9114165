# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A process that mounts a share of a home on this machine: SOCKET MOUNTPOINT CACHE WAIT LIMIT."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from shares.mount import MountedShare
from tests.waiting import eventually
from wire import Caller

SHARE = "files"
READY = "mounted"


def main(socket: str, mountpoint: str, cache: str, wait: str, limit: str) -> None:
    logging.basicConfig(level=logging.INFO)
    call = partial(Caller, Path(socket))
    name = Path(mountpoint).name
    about = (call, SHARE, name, Path(mountpoint), Path(cache))
    mounted = MountedShare(
        *about, limit=int(limit), wait=float(wait), ahead=True, allow_other=os.getuid() == 0
    )
    signal.signal(signal.SIGTERM, lambda *_: mounted.stop())
    print(READY, flush=True)
    mounted.run()


class MountProcess:
    """Such a process. limit: bytes of its buffer"""

    def __init__(
        self,
        socket: Path,
        mountpoint: Path,
        cache: Path,
        wait: float = 20.0,
        limit: int = 1 << 26,
    ) -> None:
        self.mountpoint = mountpoint
        mountpoint.mkdir(exist_ok=True)
        self._log = (mountpoint.parent / f"{mountpoint.name}.log").open("ab")
        arguments = [str(socket), str(mountpoint), str(cache), str(wait), str(limit)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, *arguments],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout
        assert self.process.stdout.readline().strip() == READY

    def kill(self) -> None:
        """As by kill -9. The mount goes with it."""
        self.process.kill()
        self.process.wait()
        mounts = Path("/proc/self/mounts")
        assert eventually(lambda: f" {self.mountpoint} " not in mounts.read_text())

    def close(self) -> None:
        """Unmount, and wait until all is given back."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        if self.process.stdout:
            self.process.stdout.close()
        self._log.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
