# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When a session moves by itself, and when it does not."""

from pathlib import Path

from client.moves.routes import Prediction, Route
from client.platform.signal_quality import SignalQuality, signal_dbm
from client.roaming import MoveOffer, expected_operations, worth

HEAD = "Inter-| sta-|   Quality        |\n face | tus | link level noise |\n"


def prediction(mib: int, seconds: float = 5.0) -> Prediction:
    return Prediction(Route.REPLAY, seconds, {"media": mib << 20}, "media")


def offer(
    here: float | None, there: float, operations: float = 60, mib: int = 10, held: float = 0.0
) -> MoveOffer | None:
    return worth(
        "cafe",
        here=here,
        there=there,
        operations=operations,
        route=prediction(mib),
        allowed=100 << 20,
        held=held,
    )


def test_a_near_surrogate_is_worth_a_move() -> None:
    found = offer(0.040, 0.005)
    assert found is not None
    assert found.bytes == 10 << 20


def test_one_as_far_as_home_is_not() -> None:
    assert offer(0.040, 0.039, operations=10_000) is None
    assert offer(0.005, 0.040) is None


def test_more_bytes_than_allowed_are_not_worth_it() -> None:
    assert offer(0.040, 0.005, mib=101) is None


def test_a_move_saves_more_than_programs_wait_for_it() -> None:
    assert offer(0.040, 0.005, held=1.5) is not None
    assert offer(0.040, 0.005, held=1.7) is None


def test_where_nobody_answers_any_surrogate_is_worth_it() -> None:
    assert offer(None, 0.300) is not None


def test_little_use_is_worth_little() -> None:
    assert offer(0.015, 0.010, operations=60) is None
    assert offer(0.015, 0.010, operations=600) is not None
    assert expected_operations(0, 10) == 60
    assert expected_operations(6000, 600) == 6000


def test_a_fading_signal_is_told_from_a_good_one(tmp_path: Path) -> None:
    wireless = tmp_path / "wireless"
    assert signal_dbm(wireless) is None
    wireless.write_text(HEAD + " wlan0: 0000   40.  -81.  -256        0      0\n")
    assert signal_dbm(wireless) == -81
    assert "faint" in SignalQuality().leaving(0.005, signal_dbm(wireless))
    wireless.write_text(HEAD + " wlan0: 0000   70.  -40.  -256        0      0\n")
    assert SignalQuality().leaving(0.005, signal_dbm(wireless)) == ""
    wireless.write_text(HEAD + " wlan0: nonsense\n")
    assert signal_dbm(wireless) is None


def test_a_longer_way_is_noticed_and_a_busy_host_is_not() -> None:
    reception = SignalQuality()
    assert [reception.leaving(0.005, None) for _ in range(3)] == ["", "", ""]
    assert reception.leaving(0.013, None) == ""
    assert "ms" in reception.leaving(0.060, None)
    assert reception.leaving(None, None) != ""
