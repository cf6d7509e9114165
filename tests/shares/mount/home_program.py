# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A process that is a home of one share, for as long as its input is open: SOCKET SHELF ROOT."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from homeserver.shares import ShareRegistry, Shares
from shares.home import ShareRecord
from tests.shares.mount.served import LEASE, SHARE, as_user


def main(socket: str, shelf: str, root: str) -> None:
    shares = Shares(ShareRegistry(Path(shelf)), Path(socket), LEASE)
    shares.add(ShareRecord(SHARE, root, log="async"))
    print("home", flush=True)
    sys.stdin.read()
    shares.close()


class HomeProcess:
    """Such a process, of the user of that number."""

    def __init__(self, socket: Path, shelf: Path, root: Path, user: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *map(str, (socket, shelf, root))],
            **as_user(user),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        assert self._process.stdout.readline().strip() == "home"

    def close(self) -> None:
        self._process.communicate(timeout=60)


if __name__ == "__main__":
    main(*sys.argv[1:])
