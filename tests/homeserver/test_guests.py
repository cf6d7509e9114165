# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which share a service's guest is a node of, and that it is one only while it is served."""

import contextlib
import dataclasses
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeserver import HomeSettings
from homeserver.guests.shares import HomeShares
from homeserver.shares import ShareRegistry, Shares
from satchel.errors import NotFoundError
from shares.home import ShareRecord


@pytest.fixture
def settings(short_path: Path) -> HomeSettings:
    (short_path / "run").mkdir()
    return dataclasses.replace(HomeSettings(), data=short_path / "data", run=short_path / "run")


@pytest.fixture
def shares(settings: HomeSettings) -> Iterator[Shares]:
    made = Shares(ShareRegistry(settings.shares), settings.share_socket, 30.0)
    yield made
    made.close()


def add(shares: Shares, folder: Path) -> None:
    folder.mkdir()
    shares.add(ShareRecord(folder.name, str(folder)))


@contextlib.contextmanager
def served(settings: HomeSettings, service: str) -> Iterator[None]:
    guest, session = socket.socketpair()
    with guest, session:
        serving = HomeShares(settings, service).serve(session)
        try:
            yield
        finally:
            serving.close()


def nodes(shares: Shares) -> dict[str, int]:
    return {share["name"]: share["nodes"] for share in shares.listed()}


def test_a_guest_is_a_node_of_the_only_share(settings: HomeSettings, shares: Shares) -> None:
    add(shares, settings.run / "photos")
    with served(settings, "notes"):
        assert nodes(shares) == {"photos": 1}
    assert list((settings.run / "nodes").iterdir()) == []


def test_a_guest_is_a_node_of_the_share_of_its_name(settings: HomeSettings, shares: Shares) -> None:
    for name in ("photos", "notes"):
        add(shares, settings.run / name)
    with served(settings, "notes"):
        assert nodes(shares) == {"photos": 0, "notes": 1}


def test_a_guest_without_a_share_that_is_meant_is_not_served(
    settings: HomeSettings, shares: Shares
) -> None:
    with pytest.raises(NotFoundError, match="there are 0"), served(settings, "notes"):
        pass
    for name in ("photos", "music"):
        add(shares, settings.run / name)
    with pytest.raises(NotFoundError, match="share add FOLDER --name notes"):
        HomeShares(settings, "notes").check()
    with pytest.raises(NotFoundError, match="there are 2"), served(settings, "notes"):
        pass
