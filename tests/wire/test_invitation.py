# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How long a code that is shown is good for."""

import pytest

from satchel.errors import UnavailableError
from wire import Grant, Invitation, PairRequest, pair
from wire.keys import pairing


def nobody(request: PairRequest) -> Grant:
    raise AssertionError(f"{request} was let in")


def never(kind: str) -> PairRequest:
    raise AssertionError(f"a {kind} with an old code was asked to let us in")


def test_a_code_is_good_for_two_minutes() -> None:
    assert pairing.VALID_SECONDS == 120.0


def test_an_old_code_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "VALID_SECONDS", 0.0)
    with Invitation("home", nobody, listen="127.0.0.1", port=0) as shown:
        place = shown.address("127.0.0.1", "")
        with pytest.raises(UnavailableError, match="not good any more"):
            pair(place, never)
        with pytest.raises(UnavailableError, match=r"has expired.*show another one"):
            shown.wait()
    with pytest.raises(UnavailableError, match="listens for two minutes"):
        pair(place, never)
