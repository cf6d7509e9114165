# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate that signed a lie is proved to have done so, to who knows public keys alone."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client.session.proof import Proof, ProofInvalid
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.scripted import ScriptedGuest
from tests.waiting import eventually
from wire import AnswerKey, fingerprint

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


def lie_once(world: World) -> Path:
    """The evidence of a session in which the replica at `a` has answered falsely."""
    runner = world.runner()
    url = world.proxy(runner)
    runner.move("a")
    post(url)
    assert eventually(lambda: operations(runner).tally.later_responses == 1)
    guest = world.spots["a"].driver.machines[-1].guest
    assert isinstance(guest, ScriptedGuest)
    guest.history = "what its operator would like"
    post(url)
    assert eventually(lambda: [q["restarted"] for q in runner.status()["quarantined"]] == [True])
    return Path(runner.status()["quarantined"][0]["evidence"])


def verify(path: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """As somebody who has no settings, no state and no key."""
    nobody = {
        name: str(folder / "nobody") for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
    }
    argv = [sys.executable, "-m", "client", "evidence", "verify", str(path), "--json", *options]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=60, env=os.environ | nobody
    )


def test_a_third_party_verifies_it_with_public_keys_alone(carried: World, tmp_path: Path) -> None:
    evidence = lie_once(carried)
    alone = tmp_path / "alone.json"
    alone.write_bytes((evidence / "proof.json").read_bytes())
    owner = carried.home.home.service("notes").owner
    liar = fingerprint(carried.spots["a"].host.answer_key.public)
    for path in (evidence, alone):
        done = verify(path, tmp_path, "--home-key", owner, "--surrogate-key", liar)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["surrogate_key"], told["home_key"]) == (liar, owner)
        assert told["home_answered"] != told["surrogate_answered"]
    facts = json.loads((evidence / "evidence.json").read_text())
    assert told["operation"] == facts["operation"] == 2
    assert told["home_answered"] == facts["home_digest"]
    assert verify(alone, tmp_path, "--home-key", liar).returncode == 6
    assert verify(alone, tmp_path, "--surrogate-key", owner).returncode == 6
    assert verify(tmp_path / "none", tmp_path).returncode == 3


def _set(*path: str, value: Any) -> Callable[[Any], None]:
    def change(proof: Any) -> None:
        for name in path[:-1]:
            proof = proof[name]
        proof[path[-1]] = value

    return change


def test_nobody_is_framed_by_a_proof_that_was_changed(carried: World, tmp_path: Path) -> None:
    evidence = lie_once(carried)
    whole = (evidence / "proof.json").read_bytes()
    Proof.decode(whole).verify()
    other, good = AnswerKey(tmp_path / "other"), json.loads(whole)
    forged = other.sign(Proof.decode(whole)._statement(Proof.decode(whole).surrogate_says))
    changes = [
        _set("operation", value=3),
        _set("service", value="speech"),
        _set("asked", value="0" * 64),
        _set("surrogate_says", "replica", value="notes-2"),
        _set("surrogate_says", "replica", value="home"),
        _set("surrogate_says", "answered", value="0" * 64),
        _set("surrogate_says", "answered", value="not hex"),
        _set("surrogate_says", "key", value=other.public),
        _set("surrogate_says", "signature", value=base64.b64encode(forged).decode()),
        _set("surrogate_says", "signature", value=""),
        _set("home_says", "answered", value=good["surrogate_says"]["answered"]),
        _set("home_says", "key", value=other.public),
        _set("home_says", "signature", value=""),
        _set("home_says", value=good["surrogate_says"]),
        _set("surrogate_says", value=good["home_says"]),
        _set("version", value=2),
        _set("more", value=1),
    ]
    for number, change in enumerate(changes):
        proof = json.loads(whole)
        change(proof)
        with pytest.raises(ProofInvalid):
            Proof.decode(json.dumps(proof).encode()).verify()
            pytest.fail(f"change {number}")
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(proof))
    assert verify(path, tmp_path).returncode == 6
