# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Verdicts of trials on scripted guests; those on real ones are in test_trial.py."""

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from homeserver.machine_options import ANYTHING
from homeserver.services.trial import ImageTrial, TrialVerdict
from hypervisor import FakeDriver
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
