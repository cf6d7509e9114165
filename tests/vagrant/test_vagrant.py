# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`vagrant up`, then the README's main job between the two machines, with this host as the laptop.

Nothing here reaches into the machines but ssh: commands are those of the README. They are emulated
(no KVM is asked of the host), with a KVM in them that is emulated as well.
"""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.built import built_image
from tests.hypervisor.libvirtd import LIBVIRT, Libvirtd
from tests.needs import requires
from tests.vagrant.box import ROOT, box
from tests.vagrant.machines import Laptop, Machine, Room, Vagrant

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.machine,
    pytest.mark.timeout(3 * 3600),
    requires(*LIBVIRT, "vagrant", "dnsmasq", "mmdebstrap", "rsync", "ruby", "tun"),
]

HOME, SURROGATE = "192.168.56.10", "192.168.56.20"
PORT = "8080"
NOTES = f"http://127.0.0.1:{PORT}/api/notes"
PATIENCE_SECONDS = 3600.0
POLL_SECONDS = 5.0


@pytest.fixture
def tree(short_path: Path) -> Path:
    """What git has of this tree, as it is now, for the machines."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    copy = short_path / "satchel"
    for name in filter(None, names.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # removed, and git not told yet
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    return copy


@pytest.fixture
def room(short_path: Path) -> Iterator[Room]:
    (short_path / "v").mkdir()
    libvirt = Libvirtd(short_path / "v", apart=True)
    room = Room(libvirt, short_path)
    try:
        libvirt.start()
        yield room
    finally:
        room.close()
        libvirt.stop()


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for what takes minutes; a look is a command."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(POLL_SECONDS)


def make_home(home: Machine) -> None:
    """A home with the image that this host has built, and its daemon."""
    home.takes(built_image("notes").disk.parent, ".cache/satchel/images/notes")
    home.sees("satchel-home init")
    home.writes(".config/satchel/home.toml", "boot_seconds = 3600\n")  # its KVM is emulated
    daemon = home.starts("satchel-home serve")
    until(lambda: daemon.poll() is not None or answers(home, "satchel-home"), "home serves")
    home.sees("satchel-home service add notes")
    home.sees("satchel-home launch notes")


def make_surrogate(surrogate: Machine) -> None:
    """What its operator does."""
    surrogate.writes(".config/satchel/surrogate.toml", 'name = "cafe"\nallow-emulation = true\n')
    said = surrogate.sees(f"satchel-surrogate authority init --name {SURROGATE}")
    surrogate.writes("lines", "\n".join([*said["sshd_config"], ""]))
    surrogate.types("sudo cp lines /etc/ssh/sshd_config.d/satchel.conf")
    surrogate.types("sudo systemctl restart ssh")  # `reload` returns before sshd listens again
    daemon = surrogate.starts("satchel-surrogate serve")
    until(
        lambda: daemon.poll() is not None or answers(surrogate, "satchel-surrogate"),
        "the surrogate serves",
    )


def answers(machine: Machine, program: str) -> bool:
    """Whether its daemon does."""
    return "yes" in machine.types(f"{program} status --json >/dev/null && echo yes || true")


def titles(laptop: Laptop) -> set[str]:
    return {note["title"] for note in json.loads(laptop.runs("curl", "-sS", NOTES))["notes"]}


def write(laptop: Laptop, title: str) -> None:
    note = json.dumps({"title": title, "text": "x"})
    header = "Content-Type: application/json"
    laptop.runs("curl", "-sSf", "-H", header, "-d", note, NOTES)


def state(laptop: Laptop, name: str) -> Any:
    """Of that replica of the session; None where there is none, or no session yet."""
    said = laptop.may_see("status", "notes")
    return {row["name"]: row["state"] for row in said["replicas"]}.get(name) if said else None


def use(laptop: Laptop) -> None:
    """A session with the stick at home, a move to the hotspot, and the end of it."""
    session = laptop.session("notes", "--port", PORT)
    until(lambda: session.poll() is not None or state(laptop, "home") == "joined", "home answers")
    write(laptop, "with home alone")
    laptop.sees("move", "notes", "--to", "cafe")
    until(lambda: state(laptop, "cafe") == "joined", "the replica at the hotspot has caught up")
    for number in range(5):
        write(laptop, f"at the hotspot {number}")
    assert titles(laptop) == WRITTEN
    assert laptop.sees("status", "notes")["diverged"] == 0
    laptop.may_see("stop", "notes")  # it waits for a minute only, and the end takes longer
    session.wait(PATIENCE_SECONDS)


WRITTEN = {"with home alone", *(f"at the hotspot {number}" for number in range(5))}


def test_the_main_job_between_the_machines_of_the_vagrantfile(room: Room, tree: Path) -> None:
    vagrant = Vagrant(room, tree, box(tree))
    vagrant("up", "home")
    vagrant("up", "surrogate")
    home, surrogate = vagrant.machine("home"), vagrant.machine("surrogate")
    for machine in (home, surrogate):
        assert "satchel" in machine.types("satchel --version")
        machine.types("test -w /dev/kvm")
    make_home(home)
    make_surrogate(surrogate)

    laptop = Laptop(room)
    code, place = home.shows(f"satchel-home pair --at {HOME}")
    laptop.sees("pair", code, "--at", place, "--home")
    code, place = surrogate.shows(f"satchel-surrogate admit --at {SURROGATE}")
    laptop.sees("pair", code, "--at", place, "--name", "cafe")
    for peer in ("home", "surrogates.cafe"):  # sshd is emulated as well
        laptop.sees("config", "set", f"{peer}.connect_seconds", "300")

    laptop.sees("config", "set", "auto", "off")  # or it moves by itself, before it is asked to

    key = Path(laptop.types("config", "get", "home.identity").strip())
    home.writes("laptop.pub", key.with_name(f"{key.name}.pub").read_text())
    home.types("mkdir stick && satchel-home media init stick --for laptop.pub")
    home.sees("satchel-home checkpoint notes --media stick")
    stick = laptop.folder / "stick"
    home.gives("stick", stick)
    laptop.sees("config", "set", "media", str(stick))
    use(laptop)

    home.types("rm -r stick")
    home.takes(stick, "stick")
    home.sees("satchel-home checkpoint notes --media stick")
    session = laptop.session("notes", "--port", PORT, "--media", str(stick))
    until(lambda: session.poll() is not None or state(laptop, "home") == "joined", "home answers")
    assert titles(laptop) == WRITTEN
