# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A port for programs, where the machine has no descriptor left for a moment."""

import errno
import socket

import pytest

from wire.ports import stream_port


def test_a_connection_that_cannot_be_accepted_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Busy(socket.socket):
        faults = 1

        def accept(self) -> tuple[socket.socket, object]:
            if Busy.faults:
                Busy.faults -= 1
                raise OSError(errno.EMFILE, "too many open files")
            return super().accept()

    listener = Busy()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    monkeypatch.setattr(stream_port, "listen_local", lambda port: listener)
    port = stream_port.StreamPort("vnc", 0, lambda connection: connection.sendall(b"here"))
    with socket.create_connection(("127.0.0.1", port.port), 10) as connection:
        assert connection.recv(4) == b"here"
    port.close()
