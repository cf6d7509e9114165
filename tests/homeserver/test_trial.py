# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`image try` on services that repeat themselves, that do not, and that never listen, in guests."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from testbed.built import built_image, cache_folder
from tests.homeserver.program import PROGRAM, Program
from tests.images.oci import web_image
from tests.needs import requires
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires("qemu-system-x86_64", "mmdebstrap", "apt-get", "debugfs", "fuse"),
]

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "guestbook"

SERVER = """\
import itertools
import time
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{{{answer}}}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """With the layers of Debian that other tests have made."""
    built_image("notes")
    program = Program(tmp_path)
    images = tmp_path / "cache" / "satchel" / "images"
    images.mkdir(parents=True)
    (images / "layers").symlink_to(cache_folder() / "layers")
    return program


def recipe(folder: Path, command: str, answer: str = "1", extra: str = "") -> Path:
    """A service of one's own, which answers each request with a Python expression."""
    own = folder / "thing"
    (own / "files" / "srv").mkdir(parents=True)
    text = f'name = "thing"\nextends = "base"\ncommand = "{command}"\n{extra}'
    (own / "recipe.toml").write_text(text)
    (own / "files" / "srv" / "server.py").write_text(SERVER.format(answer=answer))
    return own


def attempt(program: Program, status: int, *arguments: str) -> str:
    """What `image try` prints; it must end with that exit status."""
    done = subprocess.run(
        [PROGRAM, "image", "try", *arguments, "--json"],
        env=program.environment,
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout or done.stderr


def tried(program: Program, name: str, status: int) -> Any:
    return json.loads(attempt(program, status, name))


PYTHON = "exec python3 -s /srv/server.py"


def test_the_example_of_the_guide_replays(program: Program) -> None:
    program.json("image", "build", EXAMPLE)
    found = tried(program, "guestbook", 0)
    assert (found["contract"], found["needs"], found["requests"]) == ("replay", [], 4)


def test_a_container_replays(program: Program, tmp_path: Path) -> None:
    reference = web_image(tmp_path / "image")
    program.json("image", "build", reference, "--name", "web", "--set", "disk-mib=1024")
    rows = {row["name"]: row["built"] for row in program.json("image", "ls")}
    assert rows["web"] == "yes"
    assert tried(program, "web", 0)["contract"] == "replay"


def test_a_clock_is_taken_from_the_log(program: Program, tmp_path: Path) -> None:
    program.json("image", "build", recipe(tmp_path, PYTHON, "time.time()"))
    found = tried(program, "thing", 20)
    assert (found["contract"], found["needs"]) == ("replay", ["time", "monotonic", "randomness"])
    assert found["first"] != found["second"]


def test_what_is_in_no_log_has_to_be_carried(program: Program, tmp_path: Path) -> None:
    answer = "open('/proc/sys/kernel/random/uuid').read()"
    program.json("image", "build", recipe(tmp_path, PYTHON, answer))
    found = tried(program, "thing", 21)
    assert found["contract"] == "carry"
    assert found["request"] == "GET /"
    assert "answered differently" in found["why"]


def test_service_add_gives_an_image_the_contract_that_its_trial_finds(
    program: Program, tmp_path: Path
) -> None:
    answer = "open('/proc/sys/kernel/random/uuid').read()"
    program.json("image", "build", recipe(tmp_path, PYTHON, answer, "[[rehearsal]]\n"))
    program.json("init")
    daemon = program.start("serve")
    try:
        assert eventually(lambda: "answers at" in program.log.read_text())
        found = program.json("service", "add", "thing", seconds=1100)
        assert found["contract"] == "carry"
        assert "answered differently" in found["why"]
        assert program.json("launch", "thing", seconds=600)["state"] == "ready"
        assert program.json("service", "add", "again", "--image", "thing")["why"] == (
            "its recipe says so"
        )
    finally:
        daemon.terminate()
        daemon.wait(60)


def test_a_service_that_never_listens_is_told_with_its_console(
    program: Program, tmp_path: Path
) -> None:
    command = "echo I want a database; exec sleep 1000"
    program.json("image", "build", recipe(tmp_path, command))
    said = attempt(program, 8, "thing", "--seconds", "40")
    assert "I want a database" in json.loads(said.splitlines()[-1])["error"]["why"]
