# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a trace is like, in numbers."""

from __future__ import annotations

from papers.ofs.trace import ABSENT, MICROSECONDS, Kind, Trace

HEADING = (
    "| use | seconds | files (new) | reads / writes | MB | blocks | different | writes of each |"
)


def row_of(trace: Trace) -> str:
    """Return a trace's line of the table that `--statistics` prints."""
    reads = [each for each in trace.accesses if each.kind is Kind.READ]
    writes = [each for each in trace.accesses if each.kind is Kind.WRITE]
    read, written = (
        [(each.file, block) for each in some for block in each.blocks] for some in (reads, writes)
    )
    new = sum(file.size == ABSENT for file in trace.files)
    last = trace.accesses[-1]
    cells = [
        trace.use,
        f"{(last.at + last.took) / MICROSECONDS:.0f}",
        f"{len(trace.files)} ({new})",
        f"{len(reads)} / {len(writes)}",
        f"{sum(each.length for each in reads) / 1e6:.1f} / "
        f"{sum(each.length for each in writes) / 1e6:.1f}",
        f"{len(read)} / {len(written)}",
        f"{len(set(read) | set(written))}",
        f"{len(written) / max(1, len(set(written))):.1f}",
    ]
    return f"| {' | '.join(cells)} |"


__all__ = ["HEADING", "row_of"]
