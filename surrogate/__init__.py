# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A hotspot's daemon: second-class replicas of strangers' services, resumed lazily.

A surrogate holds no key to a home or a client. What it fetches of theirs comes through Unix
sockets that the client forwarded to it, and what it may ask there is limited to chunks whose
SHA-256 it knows.

- cli: the commands, one file each
- operator_api, page, metrics, preflight: what the operator has; announcer: what everybody knows
- tenant_sockets: a socket for each tenant
- api: a surrogate over HTTP, as one tenant has it
- host: admission, all replicas, the chunk cache
- replicas: one client's each; site: what serves every replica: media plugged in here, peers
- prefetch: what machines will need, fetched before they ask; cache: which chunks a host keeps
- fetching: from which source each chunk comes, and what is done about one that lies or dies
- tenants: the guests that were admitted
- settings: surrogate.toml
- caps: what one tenant may have; guests: what machines have below /satchel; operator: who it is

Imports go down this list, and what stands on one line does not know each other (`.importlinter`).
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from surrogate.api import surrogate_app
    from surrogate.fetching import Coverage, Fetcher, Prior, Source
    from surrogate.fetching.sources import SocketSource, StoreSource, forwarded
    from surrogate.host import Host
    from surrogate.prefetch.prefetcher import PendingBlock, Prefetcher
    from surrogate.prefetch.readahead import Readahead
    from surrogate.replicas.cpu_priority import BACKGROUND
    from surrogate.settings import SurrogateSettings
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "BACKGROUND",
    "Coverage",
    "Fetcher",
    "Host",
    "PendingBlock",
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
