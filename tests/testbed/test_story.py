# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the demo tells where a new replica is slow to lead."""

from testbed.story import standing


def test_of_each_replica_is_told_whether_it_joined_how_far_behind_and_its_stalls() -> None:
    home = {"name": "home", "state": "joined", "operation": 40, "lag": 0, "stalls": None}
    stalls = {"count": 12, "seconds": 1.44, "longest": 0.3}
    late = {"name": "b", "state": "catching up", "operation": 33, "lag": 7, "stalls": stalls}
    begun = {"name": "c", "state": "starting", "operation": None, "stalls": None}
    assert standing([home, late, begun]) == (
        "home joined, 0 operations behind; "
        "b not joined (catching up), 7 operations behind, waited for blocks 12 times, 1.4 s; "
        "c not joined (starting)"
    )
