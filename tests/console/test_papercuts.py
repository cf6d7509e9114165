# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What tripped newcomers once, by the real programs, at 80 columns and without colour."""

import os
import pty
import signal
from pathlib import Path

import pytest

from satchel import paths
from tests.homeserver.program import PROGRAM, Program
from tests.needs import requires
from tests.waiting import eventually


@pytest.fixture
def person(short_path: Path) -> Program:
    made = Program(short_path, COLUMNS="80", NO_COLOR="1", TERM="dumb")
    (short_path / "run").mkdir(mode=0o700)
    return made


def on_a_terminal(person: Program, *words: str) -> str:
    """What a command says on one of 80 columns."""
    said = bytearray()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(PROGRAM, [str(PROGRAM), *words], person.environment)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux's end of a terminal
            break
        if not piece:
            break
        said += piece
    os.close(terminal)
    os.waitpid(pid, 0)
    return said.decode()


def test_init_shows_all_of_the_signers_key(person: Program) -> None:
    shown = on_a_terminal(person, "init")
    again = person.run("init").stderr  # in one line, as no terminal is there
    key = again.split("ssh-ed25519 ")[1].split()[0]
    assert len(key) > 60
    assert "…" not in shown
    assert key in "".join(shown.split())


def test_a_home_stays_one_s_own_when_the_machine_gets_one(
    person: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert person.run("init").returncode == 0
    (tmp_path / "home.toml").write_text(f'data = "{tmp_path}/data"\n')
    monkeypatch.setattr(paths, "MACHINE_CONFIG", tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", person.environment["XDG_CONFIG_HOME"])
    own = paths.config_dir() / "home.toml"
    assert paths.config_file("home.toml") == own
    own.unlink()
    assert person.run("--config", tmp_path / "home.toml", "init").returncode == 0
    assert paths.config_file("home.toml") == tmp_path / "home.toml"


def test_a_folder_is_no_medium_and_that_is_said(person: Program) -> None:
    assert person.run("init").returncode == 0
    folder = person.folder / "folder"
    folder.mkdir()
    made = person.run("media", "init", folder)
    assert made.returncode == 0
    assert f"{folder} is a folder and no mounted medium" in made.stderr
    listed = person.run("media", "ls")
    assert str(folder) not in listed.stdout
    assert "`satchel-home checkpoint SERVICE --media PATH`" in listed.stderr
    ejected = person.run("media", "eject", folder)
    assert ejected.returncode == 0
    assert "is a folder" in ejected.stderr


def test_a_file_of_somebody_elses_is_not_sent_to_verify(person: Program) -> None:
    done = person.run("dump", "/etc/passwd")
    assert done.returncode == 2
    assert (
        done.stderr == "satchel-home: cannot show /etc/passwd: it is no file of the chunk store\n"
    )


@requires("nbdkit", "qemu-system-x86_64")
def test_serve_says_what_it_can_run_and_what_comes_before_launch(person: Program) -> None:
    assert person.run("init").returncode == 0
    process = person.start("serve")
    try:
        assert eventually(lambda: "answers at" in person.log.read_text(), 120.0)
        said = person.log.read_text().splitlines()
        first = next(n for n, line in enumerate(said) if line.startswith("this host "))
        up = next(n for n, line in enumerate(said) if "answers at" in line)
        assert first < up
        missing = person.run("launch", "notes")
        assert missing.returncode == 3
        assert "`satchel-home service add`" in missing.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
