# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How long a code that is shown is good for."""

import pytest

from satchel.errors import UnavailableError
from wire import Grant, Invitation, PairRequest, pair
from wire.keys import pairing


def nobody(request: PairRequest) -> Grant:
    raise AssertionError(f"{request} was let in")


REQUEST = PairRequest(
    "laptop", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGiKzS0hjYbYo1EqDdHcJZN0q3wJZ5kFDYEBiTOGEmCe"
)


def test_a_code_is_good_for_two_minutes() -> None:
    assert pairing.VALID_SECONDS == 120.0


def test_an_old_code_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "VALID_SECONDS", 0.0)
    with Invitation("home", nobody, listen="127.0.0.1", port=0) as shown:
        place = shown.address("127.0.0.1", "")
        with pytest.raises(UnavailableError, match="not good any more"):
            pair(place, "home", REQUEST)
        with pytest.raises(UnavailableError, match=r"has expired.*show another one"):
            shown.wait()
    with pytest.raises(UnavailableError, match="listens for two minutes"):
        pair(place, "home", REQUEST)
