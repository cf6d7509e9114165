# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Debian's Jupyter, carried: a kernel counts on through moves, and its one WebSocket stays."""

import subprocess
import threading
from pathlib import Path

import pytest

from tests.client.carried import carried_world
from tests.machines import MACHINE
from tests.needs import requires
from tests.services.examples import example
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "websocket", "sshd", "ssh"),
]

CLIENT = Path(__file__).with_name("kernel_client.py")
PATIENCE_SECONDS = 300.0


class Client:
    """The program at the kernel, and the lines that it has printed."""

    def __init__(self, port: int) -> None:
        argv = ["/usr/bin/python3", str(CLIENT), str(port)]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())

    def prints_more(self) -> bool:
        count = len(self.lines)
        return eventually(lambda: len(self.lines) > count + 3, PATIENCE_SECONDS)

    def end(self) -> list[str]:
        """Have it interrupt the kernel; all lines."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.wait(PATIENCE_SECONDS) == 0
        self._reading.join()
        return self.lines

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def test_a_kernel_counts_on_through_moves(tmp_path: Path) -> None:
    example("jupyter", tmp_path)
    with carried_world("jupyter") as world:
        session = world.session()
        client = Client(session.port)
        try:
            assert client.prints_more()
            for place in ("a", "b"):
                print(session.move(place))
                assert client.prints_more()
            *numbers, kept = client.end()
        finally:
            client.close()
        assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
        # It may have been interrupted between a count and its print.
        assert kept in (f"kept {len(numbers)}", f"kept {len(numbers) + 1}")
        assert session.relay.counts().reset == 0
