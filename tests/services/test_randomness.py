# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two machines of one checkpoint draw different randomness: a running program's."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeserver import Service
from images import build, target
from replay import agent_program
from testbed.built import cache_folder
from tests.client.carried import carried_world
from tests.machines import MACHINE
from tests.needs import requires

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "openssl", "sshd", "ssh"),
]

PROGRAM = Path(__file__).with_name("tls_server.py")
INSIDE = "/usr/lib/draws/tls_server.py"
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
    """That server, which has talked to somebody before its checkpoint."""
    folder = tmp_path / "draws" / "files" / "usr" / "lib" / "draws"
    folder.mkdir(parents=True)
    (tmp_path / "draws" / "recipe.toml").write_text(RECIPE)
    shutil.copy(PROGRAM, folder)
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
