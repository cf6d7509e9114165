# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two machines of one checkpoint draw different randomness: a running program's."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeserver import Service
from images import build, target
from replay import agent_program
from replica import RAM
from testbed.built import cache_folder
from tests.client.carried import carried_world
from tests.machines import MACHINE
from tests.needs import requires
from tests.services import drawing
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "openssl", "sshd", "ssh"),
]

PROGRAM = Path(__file__).with_name("tls_server.py")
INSIDE = "/usr/lib/draws/tls_server.py"
DRAWING = "/usr/lib/draws/drawing.py"
RECIPE = f"""
name = "draws"
extends = "base"
packages = []
command = "exec /usr/bin/python3 {INSIDE} 8443 /usr/lib/draws/certificate.pem"
port = 8443
contract = "carry"
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A home with that server, which has answered a client before its checkpoint."""
    folder = tmp_path / "draws" / "files" / "usr" / "lib" / "draws"
    folder.mkdir(parents=True)
    (tmp_path / "draws" / "recipe.toml").write_text(RECIPE)
    shutil.copy(PROGRAM, folder)
    shutil.copy(drawing.__file__, folder)
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=draws"
    both = ["-keyout", str(folder / "key"), "-out", str(folder / "certificate.pem")]
    subprocess.run(["openssl", *words.split(), *both], check=True, capture_output=True)
    with (folder / "certificate.pem").open("a") as file:
        file.write((folder / "key").read_text())
    build(target(str(tmp_path / "draws")), cache_folder() / "draws", agent=agent_program())
    with carried_world("draws") as world:
        made = world.home.home.service("draws")
        said_first(made)
        made.checkpoint()
        yield made


def said_first(service: Service) -> bytes:
    """The random bytes of the server's next hello."""
    status, said = service.replica().run(["/usr/bin/python3", INSIDE, "8443"], 120.0)
    assert status == 0
    assert len(said.strip()) == 64, said
    return said


def test_no_two_machines_of_one_checkpoint_say_the_same_in_tls(service: Service) -> None:
    said = set()
    for _ in range(3):
        service.stop()
        service.launch()
        said.add(said_first(service))
    assert len(said) == 3


def drawn_now(service: Service) -> bytes:
    """The content of DRAWN."""
    status, said = service.replica().run(["cat", str(drawing.DRAWN)], 120.0)
    return b"" if status else said


def drawn(service: Service) -> bytes:
    """Wait until the program that draws has ended, and return its draws."""
    before = b""
    while before != (now := drawn_now(service)):
        before = now
        time.sleep(1.0)
    return now


def test_no_two_machines_of_one_checkpoint_draw_the_same_before_the_agent_answers(
    service: Service,
) -> None:
    """A program draws in a tight loop, so also in the first moment after the resume."""
    start = ["sh", "-c", f"exec setsid /usr/bin/python3 {DRAWING} >/dev/null 2>&1 &"]
    assert service.replica().run(start, 60.0)[0] == 0
    assert eventually(lambda: drawing.count(drawn_now(service)) > 1000, 60.0)
    manifest = service.checkpoint().manifest
    ram = service._machines._store.read(manifest.volumes[RAM])
    pages = (ram[at : at + drawing.PAGE] for at in range(0, len(ram), drawing.PAGE))
    (page,) = (each for each in pages if each.startswith(drawing.MARK))
    at_checkpoint = drawing.count(page)
    assert at_checkpoint > 1000
    found: list[set[bytes]] = []
    for _ in range(2):
        service.stop()
        time.sleep(drawing.JUMP_SECONDS + 1.0)
        service.launch()
        # One draw may have been under way when the machine was frozen.
        draws = drawing.drawn_since(drawn(service), at_checkpoint + 1)
        assert len(draws) >= drawing.MORE - 1
        found.append(set(draws))
    same = found[0] & found[1]
    assert not same, len(same)
