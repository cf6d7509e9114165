# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate frames another one: it hands a machine over in which it has changed a byte."""

from pathlib import Path

import pytest

from client.moves.routes import Route
from client.state.surrogate_keys import PROOFS_LIMIT
from satchel.errors import StateError
from tests.client.test_runner import replica_states
from tests.client.world import World, post
from tests.needs import requires
from tests.scripted import ScriptedGuest
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


class Forging(ScriptedGuest):
    """Answers well, and is frozen with one byte of its memory changed."""

    def freeze(self) -> bytes:
        memory = bytearray(super().freeze())
        memory[memory.index(b'"history": "') + 12] ^= 1
        return bytes(memory)


@pytest.mark.parametrize("tries", [1, pytest.param(PROOFS_LIMIT + 1, marks=pytest.mark.nightly)])
def test_an_honest_surrogate_is_not_framed(carried: World, tries: int) -> None:
    """In session after session: three proofs ban."""
    carried.spots["a"].driver.guest = Forging
    for _ in range(tries):
        runner = carried.runner()
        url = carried.proxy(runner)
        runner.move("a")
        assert post(url).status_code == 200
        assert eventually(lambda r=runner: {row["lag"] for row in r.status()["replicas"]} == {0})  # type: ignore[misc]
        runner.move("b", route=Route.HANDOVER)
        post(url)
        assert eventually(
            lambda r=runner: [q["restarted"] for q in r.status()["quarantined"]] == [True]  # type: ignore[misc]
        )
        (case,) = runner.status()["quarantined"]
        assert case["surrogate"] == "a"
        assert not (Path(case["evidence"]) / "proof.json").exists()
        assert post(url).status_code == 200
        assert eventually(
            lambda r=runner: replica_states(r) == {"home": "joined", "b": "joined"}  # type: ignore[misc]
        )
        runner.move("a")
        with pytest.raises(StateError, match="cannot go there by handover"):
            runner.move("b", route=Route.HANDOVER)
        runner.move("b")
        assert [q["surrogate"] for q in runner.status()["quarantined"]] == ["a"]
        runner.close()
