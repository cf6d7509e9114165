# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A stick is plugged in on the road: the real `satchel`, and a desktop that is told."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from homeserver.media.carry import carry
from media import Media
from tests.client.commands import SATCHEL, Commands
from tests.client.test_cli import Person
from tests.client.world import World, post
from tests.media_keys import sealed_for
from tests.needs import requires
from tests.notifications import DESKTOP, MockDesktop, mock_desktop
from tests.waiting import eventually

pytestmark = [requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh"), DESKTOP]

NAMED = 'plugged-services = ["notes", "speech"]\n'


@pytest.fixture
def desktop(short_path: Path) -> Iterator[MockDesktop]:
    with mock_desktop(short_path / "bus") as shown:
        yield shown


@pytest.fixture
def sealed(world: World) -> Path:
    """A stick that has `notes`, sealed for this client."""
    world.home.launch("notes")
    root, keys = world.folder / "sealed", world.home.settings.media_keys
    root.mkdir()
    Media.init(root, sealed_for(world.home.settings, world.key.public), keys).close()
    carry(world.home.home.service("notes"), world.home.home.store, root, keys=keys)
    return root


def commands(world: World, first: str = NAMED) -> Commands:
    """Of the world's client, with a line more in its settings."""
    config = Person(world).config
    config.write_text(first + config.read_text())
    return Commands(config)


@contextmanager
def plugged(
    person: Commands, root: Path, desktop: MockDesktop
) -> Iterator[subprocess.Popen[bytes]]:
    """As systemd runs it."""
    argv: list[str | Path] = [SATCHEL, "--config", person.config, "media", "plugged", root]
    environment = os.environ | {"DBUS_SESSION_BUS_ADDRESS": desktop.address}
    with (
        person.config.with_name("plugged.log").open("wb") as log,
    ):
        process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def told_url(desktop: MockDesktop) -> str:
    assert eventually(lambda: any("You can use" in text for text in desktop.texts()))
    found = re.search(r"You can use notes at (http://\S+)\. Before", desktop.texts()[-1])
    assert found, desktop.texts()
    return found[1]


def test_its_services_run_until_they_are_stopped(
    world: World, sealed: Path, desktop: MockDesktop
) -> None:
    person = commands(world)
    with plugged(person, sealed, desktop) as process:
        url = told_url(desktop)
        assert post(url).status_code == 200
        assert person.sees("status", "notes")["media"] == str(sealed)
        assert person.types("media", "eject", str(sealed)).returncode == 5
        assert person.sees("stop", "notes") == {"stopped": "notes"}
        assert process.wait(60) == 0
    assert desktop.texts()[-1].startswith(f"The sessions have ended. {sealed} is a folder")
    assert person.sees("media", "eject", str(sealed))["unmounted"] is False
    assert world.home.executed("notes") == 1


def test_sigterm_ends_the_sessions(world: World, sealed: Path, desktop: MockDesktop) -> None:
    person = commands(world)
    with plugged(person, sealed, desktop) as process:
        told_url(desktop)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        assert "no session of notes" in person.types("status", "notes").stderr


def test_a_strangers_stick_runs_nothing(world: World, desktop: MockDesktop) -> None:
    """It is in clear: what is done with the service would be written there for all to read."""
    world.home.launch("notes")
    world.home.carry("notes", world.stick)
    with plugged(commands(world), world.stick, desktop) as process:
        assert process.wait(60) == 9
    assert ["not sealed" in text for text in desktop.texts()] == [True]


def test_what_is_not_named_does_not_run(world: World, sealed: Path, desktop: MockDesktop) -> None:
    for line in ("", 'plugged-services = ["speech"]\n'):
        with plugged(commands(world, line), sealed, desktop) as process:
            assert process.wait(60) == 0
    assert desktop.texts() == []


def test_the_desktop_is_told_why_a_service_does_not_run(
    world: World, sealed: Path, desktop: MockDesktop
) -> None:
    """Here nobody may sign its checkpoints."""
    person = commands(world)
    signers = world.settings.allowed_signers
    signers.write_text(signers.read_text().replace("satchel-checkpoint,", ""))
    with plugged(person, sealed, desktop) as process:
        assert process.wait(60) != 0
    assert "notes does not run: " in desktop.texts()[-1]
