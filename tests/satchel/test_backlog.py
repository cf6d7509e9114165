# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a peer may ask at once."""

from satchel.inflight import InflightRequests


def test_so_many_requests_and_so_many_bytes_and_no_more() -> None:
    backlog = InflightRequests(2, 100)
    assert backlog.asked(10) and backlog.asked(90)
    assert not backlog.asked(0)
    backlog.answered(0)
    backlog.answered(90)
    assert not backlog.asked(91)
    backlog.answered(91)
    assert backlog.asked(90)
