# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A stick is plugged in at home: a real file system on a device, and a desktop that is told."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from homeserver.api import MAX_BODY, home_app
from homeserver.media.care import media_contents
from media import Media, new_seal
from satchel.errors import AccessError
from tests.chunkstore.mounts import device
from tests.homeserver.conftest import Bench, program_of
from tests.homeserver.program import Program
from tests.needs import requires
from tests.notifications import DESKTOP, MockDesktop, mock_desktop
from wire import serve

pytestmark = [requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen", "root", "loop"), DESKTOP]


@pytest.fixture
def desktop(short_path: Path) -> Iterator[MockDesktop]:
    with mock_desktop(short_path / "bus") as shown:
        yield shown


@dataclass(frozen=True)
class Stick:
    """device: its; root: where it is mounted when it is"""

    device: str
    root: Path

    def mount(self) -> None:
        subprocess.run(["mount", self.device, str(self.root)], check=True)

    def unmount(self) -> None:
        if self.root.is_mount():
            subprocess.run(["umount", str(self.root)], check=True)


@pytest.fixture
def stick(tmp_path: Path) -> Iterator[Stick]:
    """Nothing is on it, and it is mounted."""
    root = tmp_path / "stick"
    root.mkdir()
    with device(tmp_path, "ext4") as made:
        found = Stick(made, root)
        found.mount()
        yield found
        found.unmount()


def program(bench: Bench, folder: Path, desktop: MockDesktop, line: str) -> Program:
    return program_of(bench, folder, line, DBUS_SESSION_BUS_ADDRESS=desktop.address)


ON = "plugged-sync = true\n"


def test_it_is_synced_and_ejected_and_the_desktop_says_so(
    bench: Bench, tmp_path: Path, stick: Stick, desktop: MockDesktop
) -> None:
    """What mounts it, here this test, is waited for."""
    settings = bench.settings
    bench.running()
    Media.init(stick.root, new_seal([]), settings.media_keys).close()
    stick.unmount()
    home = program(bench, tmp_path, desktop, ON)
    with serve(home_app(bench.home), settings.socket, threads=4, max_body=MAX_BODY):
        plugged = home.start("media", "plugged", stick.device, "--json")
        stick.mount()
        assert plugged.wait(60) == 0, home.log.read_text()
    assert not stick.root.is_mount()
    begun, *_, done = desktop.texts()
    assert str(stick.root) in begun
    assert done == f"{stick.root} can be pulled out. It has notes."
    stick.mount()
    assert [row["service"] for row in media_contents(stick.root, settings.media_keys)] == ["notes"]


def test_nothing_happens_without_the_setting(
    bench: Bench, tmp_path: Path, stick: Stick, desktop: MockDesktop
) -> None:
    Media.init(stick.root, new_seal([]), bench.settings.media_keys).close()
    bench.running()
    bench.home.close()
    done = program(bench, tmp_path, desktop, "").run("media", "plugged", stick.device)
    assert (done.returncode, "plugged-sync" in done.stderr) == (0, True)
    assert stick.root.is_mount()
    assert desktop.texts() == []


def test_a_strangers_stick_gets_nothing(
    bench: Bench, tmp_path: Path, stick: Stick, desktop: MockDesktop
) -> None:
    """In clear, as anybody can make one: checkpoints would be there for all to read."""
    bench.running()
    Media.init(stick.root).close()
    home = program(bench, tmp_path, desktop, ON)
    with serve(home_app(bench.home), bench.settings.socket, threads=4, max_body=MAX_BODY):
        error = home.fails(AccessError.exit_code, "media", "plugged", stick.device)
    assert "not sealed" in error["why"]
    assert media_contents(stick.root) == []
    assert all("not sealed" in text for text in desktop.texts())
    assert "2" in desktop.shown()[-1].hints


def test_other_file_systems_are_left_alone(
    bench: Bench, tmp_path: Path, stick: Stick, desktop: MockDesktop
) -> None:
    (stick.root / "film").write_bytes(b"film")
    done = program(bench, tmp_path, desktop, ON).run("media", "plugged", stick.device)
    assert (done.returncode, "no medium" in done.stderr) == (0, True)
    assert stick.root.is_mount()
    assert desktop.texts() == []


def test_one_that_is_in_use_is_synced_and_stays(
    bench: Bench, tmp_path: Path, stick: Stick, desktop: MockDesktop
) -> None:
    bench.running()
    Media.init(stick.root, new_seal([]), bench.settings.media_keys).close()
    home = program(bench, tmp_path, desktop, ON)
    with (
        serve(home_app(bench.home), bench.settings.socket, threads=4, max_body=MAX_BODY),
        (stick.root / "film").open("wb"),
    ):
        assert "busy" in home.fails(5, "media", "plugged", stick.device)["why"]
    assert desktop.texts()[-1].startswith("The medium has notes. Do not pull it out yet: ")
    assert media_contents(stick.root, bench.settings.media_keys)
