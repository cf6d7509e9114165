# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which replica goes first, by what is asked of it."""

import pytest

from sandbox import EVERYBODY
from surrogate.replicas import cpu_priority
from surrogate.replicas.cpu_priority import BACKGROUND, CpuPriority


@pytest.fixture
def weights() -> list[int]:
    return []


def test_a_replica_of_which_nobody_asks_gives_way_until_somebody_does(
    weights: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = CpuPriority(weights.append, always=lambda: False)
    one.look()
    assert weights == []  # it starts, and somebody waits
    monkeypatch.setattr(cpu_priority, "FOREGROUND_SECONDS", 0.0)
    one.look()
    one.look()
    assert weights == [BACKGROUND]
    for _ in range(2):
        with one.awaited():
            one.look()
            assert weights == [BACKGROUND, EVERYBODY]  # however long it takes
    one.look()
    assert weights == [BACKGROUND, EVERYBODY, BACKGROUND]


def test_what_leads_a_carried_service_stays_in_front(
    weights: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_priority, "FOREGROUND_SECONDS", 0.0)
    leads = True
    one = CpuPriority(weights.append, always=lambda: leads)
    one.look()
    assert weights == []
    leads = False
    one.look()
    assert weights == [BACKGROUND]
