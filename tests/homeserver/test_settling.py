# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The daemon's settling in the background."""

import logging
from pathlib import Path

import pytest

from chunkstore import Store
from homeserver.store.settling import BackgroundSettling
from tests.chunkstore.content import noise, text
from tests.waiting import eventually


def test_what_is_stored_is_settled_sooner_or_later(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        settling = BackgroundSettling(store, first=0.01, pause=0.01)
        try:
            for seed in range(3):
                root = store.import_bytes(text(seed, 100) + noise(seed, 10))
                assert eventually(lambda: store.stats().settled == store.stats().chunks)
                assert store.read(root) == text(seed, 100) + noise(seed, 10)
        finally:
            settling.stop()
        settling.stop()
        assert store.verify().ok


def test_stopping_does_not_wait_for_the_end(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        root = store.import_bytes(noise(1, 20_000))
        settling = BackgroundSettling(store, first=0.0, pause=1000.0)
        assert eventually(lambda: store.stats().settled > 0)
        settling.stop()
        assert 0 < store.stats().settled < store.stats().chunks
        assert store.read(root) == noise(1, 20_000)


def test_a_failure_is_told_and_does_not_end_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.create(tmp_path / "store")
    store.close()
    with caplog.at_level(logging.WARNING):
        settling = BackgroundSettling(store, first=0.0, pause=0.01)
        assert eventually(lambda: len(caplog.records) >= 2)
        settling.stop()
    assert "cannot be settled" in caplog.records[0].message
