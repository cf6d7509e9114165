# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A service that notices whatever a resume does to its guest; and how to ask it.

    life.py serve PORT          answer questions; stress-ng and memtester run beside
    life.py ask PORT WORD...    ask one from within the guest, and print the answer

A question is a line of words, an answer a line of JSON. `trust PEM` is followed by a TLS handshake
on the same connection, in which the service is the client and verifies the caller's certificate.
"""

import base64
import contextlib
import json
import os
import socket
import socketserver
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

STATE = Path("/var/lib/life")
STRESS = "stress-ng --cpu 1 --vm 1 --vm-bytes 4M --cpu-load 10 --verify --timeout 0"
MEMTESTER = "memtester 2M"


class Life:
    """What the service knows. nonce: drawn at its start, and in its memory only."""

    def __init__(self) -> None:
        self.nonce = os.urandom(16).hex()
        self.fired: dict[str, int] = {}
        self.lock = threading.Lock()
        base = self._base()
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, word TEXT)")
        base.close()
        self.said = {name: STATE / f"{name}.log" for name in ("stress", "memtester")}
        self.checkers = [self._start("stress", STRESS), self._start("memtester", MEMTESTER)]

    def answer(self, words: list[str]) -> Any:
        return getattr(self, f"_{words[0]}")(*words[1:])

    def _start(self, name: str, command: str) -> "subprocess.Popen[bytes]":
        said = self.said[name].open("wb")
        argv = ["nice", "-n", "19", *command.split()]
        return subprocess.Popen(argv, stdout=said, stderr=subprocess.STDOUT, cwd="/tmp")

    def _base(self) -> sqlite3.Connection:
        return sqlite3.connect(STATE / "base", isolation_level=None, timeout=120.0)

    def _state(self) -> dict[str, Any]:
        failures = []
        for name, path in self.said.items():
            said = path.read_text(errors="replace")
            failures += [f"{name}: {line}" for line in said.splitlines() if "fail" in line.lower()]
        failures += [f"{one.pid} ended" for one in self.checkers if one.poll() is not None]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return {"nonce": self.nonce, "boot": boot, "failures": failures, "fired": self.fired}

    def _add(self, word: str) -> dict[str, Any]:
        """Add a row, and say what the database has, and whether it is whole."""
        with contextlib.closing(self._base()) as base:
            base.execute("PRAGMA synchronous=FULL")
            base.execute("INSERT INTO rows (word) VALUES (?)", (word,))
            words = [row[0] for row in base.execute("SELECT word FROM rows ORDER BY number")]
            (sound,) = base.execute("PRAGMA integrity_check").fetchone()
        return {"words": words, "sound": sound}

    def _draw(self) -> list[str]:
        """Random numbers: of the kernel, of OpenSSL in this process, and an id of the kernel's."""
        kernel_id = Path("/proc/sys/kernel/random/uuid").read_text().strip()
        return [os.urandom(16).hex(), ssl.RAND_bytes(16).hex(), kernel_id]

    def _now(self) -> list[float]:
        return [time.time(), time.monotonic()]

    def _arm(self, name: str, seconds: str) -> str:
        """A timer that fires once, so many seconds from now."""
        self.fired[name] = 0

        def fire() -> None:
            with self.lock:
                self.fired[name] += 1

        threading.Timer(float(seconds), fire).start()
        return "armed"


class Handler(socketserver.StreamRequestHandler):
    server: "Server"

    def handle(self) -> None:
        words = self.rfile.readline().decode().split()
        if words[0] != "trust":
            self.wfile.write(json.dumps(self.server.life.answer(words)).encode() + b"\n")
            return
        context = ssl.create_default_context(cadata=base64.b64decode(words[1]).decode())
        self.wfile.write(b"go\n")
        with context.wrap_socket(self.connection, server_hostname="life") as secure:
            secure.sendall(json.dumps([secure.version(), time.time()]).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("", port), Handler)
        self.life = Life()


def ask(port: int, *words: str, timeout: float = 300.0) -> Any:
    """What the service at that port of this machine answers. `trust` has the PEM of a certificate
    and its key, both in base64: the answer is what the service says in TLS."""
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        if words[0] == "trust":
            return _ask_in_tls(connection, base64.b64decode(words[1]))
        connection.sendall(" ".join(words).encode() + b"\n")
        return json.loads(connection.makefile().readline())


def _ask_in_tls(connection: socket.socket, pem: bytes) -> Any:
    certificate = pem[pem.index(b"-----BEGIN CERTIFICATE") :]
    connection.sendall(b"trust " + base64.b64encode(certificate) + b"\n")
    assert connection.recv(3) == b"go\n"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # the service ends without reading any
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
    with context.wrap_socket(connection, server_side=True) as secure:
        return json.loads(secure.makefile().read())


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        Server(int(sys.argv[2])).serve_forever()
    else:
        print(json.dumps(ask(int(sys.argv[2]), *sys.argv[3:])))
