# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a service needs is at the next surrogate before its user is."""

import dataclasses
from pathlib import Path

import pytest

from client.moves import prestage
from client.moves.history import History
from client.moves.prestage import Prestager
from client.moves.routes import Route
from client.platform.power import Power
from client.platform.settings import ClientSettings
from client.state.paths import Paths
from tests.client.test_routes import MADE
from tests.client.world import World, post
from tests.images.test_manifest import manifest
from tests.needs import requires
from tests.waiting import eventually
from wire import Links, Peer

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prestage, "STAGE_POLL_SECONDS", 0.05)


def test_along_a_path_the_next_surrogate_has_it_before(carried: World) -> None:
    Paths(carried.settings.state).add(["a", "b"])
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    assert eventually(lambda: [row["done"] for row in runner.status()["staged"]] == [True])
    (row,) = runner.status()["staged"]
    assert (row["surrogate"], row["error"]) == ("b", None)
    assert sum(row["bytes"].values()) > 0
    assert carried.spots["b"].replicas() == []
    brought = runner.move("b", route=Route.REPLAY)
    assert sum(brought.fetched_bytes.values()) < sum(row["bytes"].values())
    assert post(url).status_code == 200
    assert len(runner.status()["staged"]) == 1  # nothing comes after b


def test_where_one_went_before_is_where_one_is_expected_again(carried: World) -> None:
    history = History.of(carried.settings.state, "notes")
    for there in "abab":
        history.add(dataclasses.replace(MADE, surrogate=there))
    runner = carried.runner()
    runner.move("a")
    assert eventually(lambda: [row["done"] for row in runner.status()["staged"]] == [True])
    (row,) = runner.status()["staged"]
    assert (row["surrogate"], row["error"]) == ("b", None)
    assert sum(row["bytes"].values()) > 0


def test_a_guess_that_cannot_be_reached_is_told_and_costs_nothing_else(carried: World) -> None:
    Paths(carried.settings.state).add(["a", "b"])
    carried.spots["b"].cut()
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    assert eventually(lambda: any(row["error"] for row in runner.status()["staged"]))
    assert post(url).status_code == 200


def test_who_is_expected_twice_has_a_link_for_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends late, as after a walk, closes its own link only."""
    names: list[str] = []
    monkeypatch.setattr(Prestager, "_bring", lambda self, stage, name, *_: names.append(name))
    Paths(tmp_path).add(["a", "b"])
    settings = ClientSettings(state=tmp_path, surrogates={"b": Peer("b")})
    with Links(tmp_path / "l") as links, Power(()) as power:
        prestager = Prestager(settings, "notes", links, power, lambda *_: ())
        for _ in range(2):
            assert prestager.expect("a", manifest(), lambda: True) == "b"
        assert eventually(lambda: len(names) == 2)
    assert len(set(names)) == 2


def test_without_a_path_and_a_past_nothing_is_brought_anywhere(carried: World) -> None:
    runner = carried.runner()
    runner.move("a")
    assert runner.status()["staged"] == []
