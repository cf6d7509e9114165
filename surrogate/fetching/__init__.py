# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Fetching chunks: from the source that delivers first, while somebody waits.

- source: anything that can deliver chunks by reference; trusted by nobody; sources: the kinds
- want: a chunk, or the blocks below a table page, that somebody waits for
- estimate: what is learnt of a source while it works: round trip, rate, hits (pure)
- source_state: an estimate, what is under way at a source, and whether it may be asked (pure)
- schedule: which source is asked for what, and when (pure)
- exchange: the schedule of a host, with threads, sources and a store
- ticket: somebody's wait for some wants
- fetcher: the exchange as one replica uses it
- page_maker: pages of a machine that was handed over, made of those that others have
- tally: what is counted of that
- coverage: how much of a replica's volumes is here, and where it came from
"""

from surrogate.fetching.coverage import CACHE, Coverage, Span
from surrogate.fetching.estimate import Estimate, Prior
from surrogate.fetching.exchange import Exchange, Supplier, Ticket, UnrequestedData
from surrogate.fetching.fetcher import ChunksUnavailable, Fetcher, NamedBlocks
from surrogate.fetching.schedule import Schedule
from surrogate.fetching.source import Source
from surrogate.fetching.source_state import Dispatch, Key, SourceState, Want
from surrogate.fetching.tally import STALL_BOUNDS, Count, FetchTally, Stalls
from surrogate.fetching.uncached_reader import UncachedReader

__all__ = [
    "CACHE",
    "STALL_BOUNDS",
    "ChunksUnavailable",
    "Count",
    "Coverage",
    "Dispatch",
    "Estimate",
    "Exchange",
    "FetchTally",
    "Fetcher",
    "Key",
    "NamedBlocks",
    "Prior",
    "Schedule",
    "Source",
    "SourceState",
    "Span",
    "Stalls",
    "Supplier",
    "Ticket",
    "UncachedReader",
    "UnrequestedData",
    "Want",
]
