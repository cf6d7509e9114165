# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A hotspot's daemon: second-class replicas of strangers' services, resumed lazily.

A surrogate holds no key to a home or a client. What it fetches of theirs comes through Unix
sockets that the client forwarded to it, and what it may ask there is limited to chunks whose
SHA-256 it knows.

- chunk_cache: which chunks a host keeps
- fetching: from which source each chunk comes, and what is done about one that lies or dies
- sources: the kinds of sources
- prefetch: a checkpoint's working set, fetched ahead of the machine
- readahead: what a machine will touch next, as its profile says; window: how much of it
- hosted: one client's replica here
- foreground: which machines go first, by what is asked of them
- host: admission, all replicas, the chunk cache
- site: what serves every replica: media plugged in here, peers
- metrics: numbers for Prometheus
- api: all of that over HTTP
- cli: the commands, one file each
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from surrogate.api import surrogate_app
    from surrogate.fetching import Coverage, Fetcher, Prior, Source
    from surrogate.foreground import BACKGROUND
    from surrogate.host import Host
    from surrogate.prefetch import Coming, Prefetcher
    from surrogate.readahead import Readahead
    from surrogate.settings import SurrogateSettings
    from surrogate.sources import SocketSource, StoreSource, forwarded
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "BACKGROUND",
    "Coming",
    "Coverage",
    "Fetcher",
    "Host",
    "Prefetcher",
    "Prior",
    "Readahead",
    "SocketSource",
    "Source",
    "StoreSource",
    "SurrogateSettings",
    "forwarded",
    "surrogate_app",
]
