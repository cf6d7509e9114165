# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Verdicts of trials on scripted guests; those on real ones are in test_trial.py."""

import dataclasses
import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from homeserver.machine_options import ANYTHING
from homeserver.services.trial import ImageTrial, TrialVerdict, decide
from hypervisor import FakeDriver
from images import TIERS, BuiltImage, Contract, Recipe, Rehearsal
from images.built import write_manifest
from images.filesystem import read_file, write_ext4
from images.recipe import RESEED_PATH
from images.tree import file_entry, with_folders
from replay.frames import REPLY_BIT, AgentFrame, FrameType
from replica import ReplicaFailed
from tests.homeserver.conftest import make_image
from tests.needs import requires
from tests.scripted import ScriptedGuest, scripted_driver

pytestmark = requires("nbdkit", "nbdfuse", "fuse")


class Forgetful(ScriptedGuest):
    """Its answers begin with chance."""

    def __init__(self) -> None:
        super().__init__()
        self.history = secrets.token_hex(32)


class Silent(ScriptedGuest):
    """Its service never listens."""

    def _reply(self, request: AgentFrame) -> bytes:
        if FrameType(request.type) is FrameType.HELLO:
            payload = b"ready=0\nexecuting=0\nrestarts=3\nexit=exit 1\n"
            return AgentFrame(
                FrameType(request.type) | REPLY_BIT, request.id, number=0, payload=payload
            ).encode()
        return super()._reply(request)


class Mute(ScriptedGuest):
    """It has no agent: a whole disk whose cloud-init does nothing."""

    def _reply(self, request: AgentFrame) -> bytes:
        return b""


def tried(folder: Path, driver: FakeDriver, seconds: float = 120.0, **changes: Any) -> TrialVerdict:
    """The verdict about an image whose recipe has these changes."""
    make_image(folder, "thing")
    described = folder / "thing" / "image.json"
    value = json.loads(described.read_text())
    value["recipe"] |= changes
    described.write_text(json.dumps(value))
    verdict = ImageTrial(folder / "thing", driver, ANYTHING, timeout=seconds).verdict()
    assert [path.name for path in folder.iterdir()] == ["thing"]
    return verdict


def test_a_service_that_repeats_itself_replays(tmp_path: Path) -> None:
    driver = scripted_driver()
    requests = [{"path": "/one"}, {"method": "POST", "path": "/two", "body": "text"}]
    verdict = tried(tmp_path, driver, rehearsal=requests)
    assert (verdict.contract, verdict.needs, verdict.requests) == ("replay", (), 4)
    assert len(driver.machines) == 2


def test_one_that_does_not_even_with_the_logs_clock_has_to_be_carried(tmp_path: Path) -> None:
    verdict = tried(tmp_path, FakeDriver(Forgetful), needs=["time"], tier="notifier")
    assert (verdict.contract, verdict.request) == ("carry", "GET /")
    assert "randomness" in verdict.why
    assert verdict.first != verdict.second


def test_one_that_is_carried_is_only_booted(tmp_path: Path) -> None:
    driver = FakeDriver(Forgetful)
    assert tried(tmp_path, driver, contract="carry").contract == "carry"
    assert len(driver.machines) == 1


def test_one_that_never_listens_fails(tmp_path: Path) -> None:
    with pytest.raises(ReplicaFailed, match=r"(?s)not ready after 3 s.*died 3 times.*console"):
        tried(tmp_path, FakeDriver(Silent), 3.0)


def test_one_without_an_agent_fails_with_its_console(tmp_path: Path) -> None:
    with pytest.raises(ReplicaFailed, match=r"(?s)3 s.*its console said"):
        tried(tmp_path, FakeDriver(Mute), 3.0, contract="carry")


def test_what_a_recipe_leaves_open_the_trial_decides_and_the_image_keeps_it(
    image: Path,
) -> None:
    """By a disk with a file system: the agent there reads what was decided."""
    said: list[str] = []

    def verdict(contract: Contract, needs: tuple[str, ...] = (), tier: str = "") -> TrialVerdict:
        said.append(contract)
        return TrialVerdict(contract, needs, 2, "as it was found", tier=tier)

    found = decide(BuiltImage.load(image), None, lambda: verdict("carry"))
    assert (found.why, said) == ("as it was found", ["carry"])
    carried = BuiltImage.load(image)
    assert carried.recipe.carried
    assert "streams=8080" in service_lines(carried)
    assert f"environment=LD_PRELOAD={RESEED_PATH}" in service_lines(carried)
    assert len(list(image.glob("disk-*"))) == 1

    assert decide(carried, None, lambda: verdict("replay")).why == "its recipe says so"
    assert said == ["carry"]
    assert decide(carried, "replay", lambda: verdict("carry")).why == "--contract says so"
    plain = BuiltImage.load(image)
    assert not [line for line in service_lines(plain) if line.startswith(("streams", "environ"))]

    open_again(image)
    needs = TIERS["notifier"]
    decide(BuiltImage.load(image), None, lambda: verdict("replay", needs, "notifier"))
    asking = BuiltImage.load(image)
    assert (asking.recipe.needs, asking.recipe.tier) == (needs, "notifier")
    assert f"asked={' '.join(needs)}" in service_lines(asking)
    assert "vdso=0" in asking.cmdline

    open_again(image, rehearsal=[])
    found = decide(BuiltImage.load(image), None, lambda: verdict("replay"))
    assert (found.contract, len(said)) == ("carry", 2)
    assert "no requests" in found.why
    assert "vdso=0" not in BuiltImage.load(image).cmdline


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image whose disk has nothing but the agent's description of a service."""
    folder = tmp_path / "thing"
    folder.mkdir()
    recipe = Recipe(name="thing", command="exec /bin/true", rehearsal=(Rehearsal(),))
    (tmp_path / "service").write_text(recipe.service_file())
    tree = with_folders({"/etc/satchel/service": file_entry(tmp_path / "service", 1)}, 1)
    write_ext4(folder / "disk-one", 16 << 20, tree, tmp_path, 1)
    for name in ("vmlinuz-one", "initrd-one"):
        (folder / name).write_bytes(name.encode())
    parts = (folder / "disk-one", "0" * 64, folder / "vmlinuz-one", folder / "initrd-one")
    write_manifest(folder, BuiltImage(recipe, *parts, cmdline="quiet"))
    return folder


def open_again(folder: Path, **changes: Any) -> None:
    """As it was built, but for these changes of its recipe."""
    image = BuiltImage.load(folder)
    recipe = dataclasses.replace(image.recipe, contract="auto", needs=(), tier="preload")
    value = {**recipe.to_json(), **changes}
    write_manifest(folder, dataclasses.replace(image, recipe=Recipe.from_json(value)))


def service_lines(image: BuiltImage) -> list[str]:
    return read_file(image.disk, "/etc/satchel/service").decode().splitlines()
