# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Connections of programs that `satchel uplink run --namespace` hands over to the daemon.

The run sends one message for each, over a Unix socket that is this user's alone: JSON with
`authority` (HOST or HOST:PORT of the service), `pid` (of the program) and `secure`, the program's
connection as a descriptor and, where `secure`, a second one with the run's key and certificates in
PEM. The daemon ends the TLS, and answers `served` or `refused`: the program trusts nobody but its
service, or said nothing. Then the run tunnels the program's next connection to that service.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from wire import Acceptor, listen_unix

logger = logging.getLogger(__name__)

MESSAGE_BYTES = 4096
HANDSHAKE_SECONDS = 20.0
SERVED, REFUSED = b"served", b"refused"

Enter = Callable[[socket.socket, str, int], int]
"""Takes a connection, the authority, and the program's process; how many requests came."""


class Entries:
    """The daemon's end, from its construction until `close`; each connection has a thread."""

    def __init__(self, path: Path, enter: Enter) -> None:
        """Raises ConflictError where another daemon listens, AccessError."""
        self._path, self._enter = path, enter
        self._acceptor = Acceptor(listen_unix(path), self._adopt, "uplink entries")
        self._acceptor.start()

    def close(self) -> None:
        self._acceptor.close()
        self._path.unlink(missing_ok=True)

    def _adopt(self, run: socket.socket) -> None:
        threading.Thread(target=self._serve, args=(run,), daemon=True).start()

    def _serve(self, run: socket.socket) -> None:
        with run, contextlib.suppress(OSError):
            run.settimeout(HANDSHAKE_SECONDS)
            message, descriptors, _, _ = socket.recv_fds(run, MESSAGE_BYTES, 2)
            try:
                served = self._admit(message, descriptors)
            except (ValueError, TypeError, LookupError, RecursionError) as error:
                logger.warning("a run's message is refused: %s", error)
                return
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            run.sendall(SERVED if served else REFUSED)

    def _admit(self, message: bytes, descriptors: list[int]) -> bool:
        fields = json.loads(message)
        authority, pid = str(fields["authority"]), int(fields["pid"])
        with socket.socket(fileno=os.dup(descriptors[0])) as plain:
            plain.settimeout(HANDSHAKE_SECONDS)
            if not fields["secure"]:
                self._enter(plain, authority, pid)
                return True
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"/proc/self/fd/{descriptors[1]}")
            context.set_alpn_protocols(["http/1.1"])
            try:
                secure = context.wrap_socket(plain, server_side=True)
            except (ssl.SSLError, OSError):
                return False
            with secure:
                return self._enter(secure, authority, pid) > 0


def hand_over(
    path: Path, connection: socket.socket, authority: str, pid: int, pem: int | None
) -> bool:
    """The run's end: give a program's connection to the daemon, and wait until it is over. pem: a
    descriptor of the key and certificates, None for a service without TLS. Whether the program has
    trusted it. Raises OSError where no daemon answers."""
    fields = {"authority": authority, "pid": pid, "secure": pem is not None}
    descriptors = [connection.fileno(), *([] if pem is None else [pem])]
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.connect(str(path))
        socket.send_fds(daemon, [json.dumps(fields).encode()], descriptors)
        connection.close()
        return daemon.recv(MESSAGE_BYTES) != REFUSED
