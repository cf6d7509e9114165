# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two devices want one service; keys that are not the right ones."""

from pathlib import Path

from tests.system.needs import WHOLE
from tests.system.site import Site
from tests.waiting import eventually
from wire import Identity

pytestmark = WHOLE


def second_device(site: Site) -> Path:
    """The settings of another device of the same person."""
    folder = site.folder / "t"
    folder.mkdir(mode=0o700)
    mine = site.roles.client_config.read_text()
    theirs = mine.replace('name = "laptop"', 'name = "tablet"')
    theirs = theirs.replace(f'run = "{site.folder}/c/run"', f'run = "{folder}/run"')
    theirs = theirs.replace(f'data = "{site.folder}/c/data"', f'data = "{folder}/data"')
    config = folder / "client.toml"
    config.write_text(theirs)
    return config


def test_two_devices_for_one_service(site: Site) -> None:
    site.run_with_media()
    port = site.port()
    site.adds(port, "by the laptop")
    tablet = second_device(site)
    said = site.fails("run", "notes", config=tablet)
    assert said.code == 5
    assert "laptop" in said.line
    assert "--take-over" in said.line
    site.adds(port, "the laptop was not disturbed")
    other = site.run_elsewhere(tablet, "--take-over")
    told = site.add(port, "too late")
    assert told.status == 409
    assert "tablet" in str(told.error)
    assert eventually(lambda: site.status()["refusal"])
    assert "tablet" in site.types("status", "notes").stdout
    there = site.titles(other)
    assert {"by the laptop", "the laptop was not disturbed"} <= there
    site.adds(other, "by the tablet")
    stopped = site.sees("stop", "notes")
    assert stopped["stopped"] == "notes"
    assert stopped["unsent"]["first"] == stopped["unsent"]["last"]  # the one that home refused
    said = site.fails("run", "notes", "--media", site.media)
    assert said.code == 5
    assert "tablet" in said.line
    done = site.types("stop", "notes", config=tablet)
    assert done.returncode == 0, done.stderr
    assert "by the tablet" in site.titles_at_home()


def test_a_key_that_home_does_not_know(site: Site) -> None:
    stranger = Identity.create(site.folder / "c" / "stranger", comment="stranger")
    config = site.roles.client_config
    right = config.read_text()
    config.write_text(right.replace(str(site.roles.identity.path), str(stranger.path)))
    said = site.fails("run", "notes", "--media", site.media)
    assert said.code == 9
    assert "home" in said.line
    assert str(stranger.path) in said.line
    assert site.left_by_sessions() == []
    config.write_text(right)
    site.run_with_media()


def test_a_key_that_a_surrogate_does_not_know(site: Site) -> None:
    keys = site.spots["a"].sshd.folder / "authorized_keys"
    keys.write_text("")
    site.run_with_media()
    said = site.fails("move", "notes", "--to", "a")
    assert said.code == 9
    assert str(site.roles.identity.path) in said.line
    assert site.states() == {"home": "joined"}
    site.adds(site.port(), "home goes on")


def test_a_surrogate_that_is_not_who_it_was(site: Site) -> None:
    known = site.folder / "c" / "known_hosts"
    lines = known.read_text().splitlines()
    mine = site.spots["a"].host.address
    other = Identity.create(site.folder / "c" / "other", comment="other")
    key = " ".join(other.public.split()[:2])
    known.write_text(
        "\n".join(f"{line.split()[0]} {key}" if mine in line else line for line in lines) + "\n"
    )
    site.run_with_media()
    said = site.fails("move", "notes", "--to", "a")
    assert said.code == 9
    assert "host key" in said.line
    site.adds(site.port(), "home goes on")


def test_a_checkpoint_that_somebody_else_signed(site: Site) -> None:
    stranger = Identity.create(site.folder / "c" / "stranger", comment="stranger")
    signers = site.folder / "c" / "allowed_signers"
    signers.write_text(f'owner namespaces="{namespace_of(signers)}" {stranger.public}\n')
    said = site.fails("run", "notes", "--media", site.media)
    assert said.code == 9
    assert "is of no use" in said.line
    assert site.left_by_sessions() == []


def namespace_of(signers: Path) -> str:
    return signers.read_text().split('namespaces="')[1].split('"')[0]
