# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The packages that people install: built, installed where nothing else is, and used there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import requires
from tests.package.cafe import NEWER, Cafe, renumbered
from tests.package.clean_root import SECONDS, CleanRoot, Machine
from tests.package.installed import PROGRAMS, SUITE, steps, tries_everything, with_packages
from tests.repository import tree
from tests.waiting import eventually

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(SECONDS),
    requires("root", "mmdebstrap", "dh", "dh_python3", "lintian", "fuse"),
]

SURROGATE = "satchel-surrogate.service"
TOOK: dict[str, float] = {}
"""Seconds of each step of a newcomer's path."""

PAIRING_COMMANDS = 5
"""The most that anybody types over both machines, that of the site's authority included."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, packages: list[Path]) -> Iterator[CleanRoot]:
    """A Debian in which they are installed, with what `satchel try` wants, and two people."""
    folder = tmp_path_factory.mktemp("clean")
    made = with_packages(folder, SUITE, packages, TOOK)
    (made.folder / "newer").mkdir()
    for deb in renumbered(packages, folder, NEWER):
        shutil.copy(deb, made.folder / "newer")
    yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def machine(root: CleanRoot) -> Iterator[Machine]:
    """The same, booted."""
    with root.booted() as booted:
        booted.run("ip", "link", "set", "lo", "up")
        yield booted


def test_lintian_finds_nothing(packages: list[Path]) -> None:
    argv = ["lintian", "--allow-root", "--tag-display-limit", "0", *map(str, packages)]
    checked = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_a_release_has_the_hashes_of_its_packages(packages: list[Path]) -> None:
    """Those of these packages: scripts/package has come to its end."""
    folder = packages[0].parent
    subprocess.run(["sha256sum", "--strict", "--check", "SHA256SUMS"], cwd=folder, check=True)
    listed = (folder / "SHA256SUMS").read_text()
    assert [path.name for path in packages if path.name not in listed] == []


def test_programs_say_their_version(root: CleanRoot) -> None:
    for program in PROGRAMS:
        assert root.run(program, "--version").startswith(f"{program}, version ")


BASH = """
source /usr/share/bash-completion/completions/satchel-home
COMP_WORDS=(satchel-home image build not) COMP_CWORD=3
_satchel_home_completion satchel-home
echo "${COMPREPLY[@]}"
"""
ZSH = "autoload -U compinit; compinit -u -D; echo $_comps[satchel] $_comps[satchel-surrogate]"


def test_shells_and_man_find_what_the_packages_bring(root: CleanRoot) -> None:
    """In the places where each of them looks by itself; a name completes, too."""
    wanted = ("zsh", "fish", "man-db", "bash-completion")
    root.run("apt-get", "install", "-y", "--no-install-recommends", *wanted)
    assert root.run("bash", "-c", BASH).split() == ["notes"]
    said = root.run("fish", "-c", "complete -C 'satchel-home image build not'")
    assert said.split() == ["notes"]
    assert root.run("zsh", "-c", ZSH).split() == ["_satchel", "_satchel-surrogate"]
    assert "plugged_services" in root.run("sh", "-c", "man satchel | col -b")
    for page in (*PROGRAMS, "satchel-run", "satchel-home-image", "satchel-surrogate-admit"):
        assert root.run("man", "-w", page).strip().startswith("/usr/share/man/man1/")


def test_a_surrogate_runs_shut_in_and_ends_when_it_is_told(machine: Machine) -> None:
    assert machine.property_of(SURROGATE, "ActiveState") == "active"
    status = json.loads(machine.run("satchel-surrogate", "status", "--json"))
    assert status["cell"].startswith("on, "), status
    machine.run("systemctl", "stop", SURROGATE)
    assert machine.property_of(SURROGATE, "Result") == "success"
    machine.run("systemctl", "start", SURROGATE)


def test_an_upgrade_replaces_the_daemon_by_one_that_takes_over(machine: Machine) -> None:
    """Not by one that is stopped first, which would end the machines of its clients."""
    before = machine.property_of(SURROGATE, "MainPID")
    begun = machine.property_of(SURROGATE, "NRestarts")
    machine.run("sh", "-c", "dpkg -i /packages/*.deb")
    assert eventually(lambda: machine.property_of(SURROGATE, "MainPID") not in (before, "0"))
    assert eventually(lambda: machine.property_of(SURROGATE, "ActiveState") == "active")
    assert int(machine.property_of(SURROGATE, "NRestarts")) == int(begun) + 1
    log = machine.run("journalctl", "--no-pager", "-u", SURROGATE)
    assert "left 0 replicas to the next surrogate" in log


def test_a_home_of_the_machine_is_three_commands(machine: Machine) -> None:
    machine.run("cp", "/usr/share/doc/satchel-home/examples/home.toml", "/etc/satchel/")
    machine.run("satchel-home", "init", user="satchel-home")
    machine.run("systemctl", "start", "satchel-home")
    assert machine.property_of("satchel-home", "ActiveState") == "active"
    machine.run("systemctl", "stop", "satchel-home")
    assert machine.property_of("satchel-home", "Result") == "success"
    machine.run("rm", "/etc/satchel/home.toml")


def test_a_newcomer_tries_everything(root: CleanRoot, capsys: pytest.CaptureFixture[str]) -> None:
    """As an ordinary user, with nothing but the packages; from here to a browser by the network.
    Says what each step took: at most three minutes in all, where the machine has nothing else to
    do."""
    told = tries_everything(root, TOOK)
    assert told["note"] is True
    assert len(told["steps"]) >= 7
    assert not list((root.folder / "tmp").glob("satchel-try-*"))
    with capsys.disabled():
        print(f"\na newcomer's path, in seconds:\n{steps(TOOK)}")


@pytest.fixture(scope="module")
def cafe(root: CleanRoot, machine: Machine) -> Cafe:
    """All three by hand, in that machine: a second one of this root would have the same store."""
    Cafe.prepare(root)
    made = Cafe(machine)
    made.open()
    return made


def test_pairing_is_five_commands_over_both_machines(cafe: Cafe) -> None:
    assert len(cafe.typed) <= PAIRING_COMMANDS, cafe.typed
    said = json.loads(cafe.machine.run("satchel", "surrogates", "--json", user="bob"))
    assert "cafe" in json.dumps(said)


def test_a_guest_goes_on_answering_through_an_upgrade(cafe: Cafe) -> None:
    """A real machine in the cell of the unit: its process and its memory stay, the daemon goes."""
    cafe.use()
    cafe.write()
    cafe.catch_up()
    daemon, guests = cafe.machine.property_of(SURROGATE, "MainPID"), cafe.guests()
    assert len(guests) == 1
    cafe.machine.run("sh", "-c", "dpkg -i /newer/*.deb")
    assert eventually(lambda: cafe.machine.property_of(SURROGATE, "MainPID") not in (daemon, "0"))
    assert eventually(lambda: cafe.machine.property_of(SURROGATE, "ActiveState") == "active")
    assert "left 1 replicas to the next surrogate" in cafe.machine.run(
        *("journalctl", "--no-pager", "-u", SURROGATE)
    )
    before = cafe.status()["last_operation"]
    cafe.write()
    cafe.catch_up()
    assert cafe.status()["last_operation"] > before
    assert cafe.guests() == guests
    told = cafe.machine.run("dpkg-query", "-W", "-f", "${Version}", "satchel-surrogate")
    assert told == NEWER


@requires("pipx")
def test_a_wheel_brings_its_libraries(tmp_path: Path, packages: list[Path]) -> None:
    """Into an environment of its own, as pipx makes it."""
    (wheel,) = (tree.ROOT / "build" / "package").glob("satchel-*.whl")
    places = {"PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | places
    subprocess.run(["pipx", "install", wheel], check=True, env=environment, timeout=SECONDS)
    for program in PROGRAMS:
        said = subprocess.check_output([tmp_path / "bin" / program, "--version"], text=True)
        assert said.startswith(f"{program}, version ")
    inside = tmp_path / "home" / "venvs" / "satchel"
    look = "import chunkstore._native._core as a, shares.fuse._native._fuse as b; print(a.__file__)"
    native = subprocess.check_output([inside / "bin/python", "-I", "-c", look], text=True).strip()
    libraries = subprocess.check_output(["ldd", native], text=True)
    assert str(inside) in next(row for row in libraries.splitlines() if "leveldb" in row)
    assert sys.prefix not in native
