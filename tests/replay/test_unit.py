# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The agent of a guest whose service somebody else keeps alive: systemd, on a whole disk."""

import http.server
import subprocess
import threading
from pathlib import Path

import pytest

from replay import AgentChannel, ServiceNotReady, agent_program
from tests.replay.agents import body, free_port
from tests.replay.agents import http as operation


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response_only(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_without_a_command_a_port_is_ready_once_anybody_listens(short_path: Path) -> None:
    port, description, path = free_port(), short_path / "service", short_path / "agent"
    description.write_text(f"command=\nport={port}\n")
    argv: list[str | Path] = [agent_program(), "--no-init"]
    argv += ["--listen", path, "--config", description]
    with subprocess.Popen(argv) as process:
        try:
            with AgentChannel.connect(path) as channel:
                with pytest.raises(ServiceNotReady, match="does not listen"):
                    channel.wait_ready(0.5)
                with http.server.HTTPServer(("127.0.0.1", port), Hello) as server:
                    threading.Thread(target=server.serve_forever, daemon=True).start()
                    status = channel.wait_ready(20.0)
                    assert (status.restarts, status.exit) == (0, "")
                    asked = operation(1, "GET", "/")
                    assert body(channel.execute(asked, 20.0).payload) == b"hello"
                    server.shutdown()
        finally:
            process.terminate()


def test_neither_command_nor_port_is_no_service(short_path: Path) -> None:
    description, path = short_path / "service", short_path / "agent"
    description.write_text("user=0\n")
    argv: list[str | Path] = [agent_program(), "--no-init"]
    argv += ["--listen", path, "--config", description]
    with subprocess.Popen(argv) as process:
        try:
            with AgentChannel.connect(path) as channel:
                assert "neither command= nor port=" in channel.hello(20.0).problem
        finally:
            process.terminate()
