# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is cold, by hindsight."""

from bench.regions import cold_regions, region_of


def test_regions_that_hindsight_would_not_have_kept_are_cold() -> None:
    hot, scan = region_of("notes", "disk0", 70), region_of("notes", "ram", 5)
    assert hot == ("notes", "disk0", 1)
    accesses = []
    for turn in range(10):
        accesses += [(key, hot) for key in range(10)]
        accesses += [(1000 + 40 * turn + n, scan) for n in range(40)]
    assert cold_regions(accesses, 20) == {scan}
