# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The device that a person carries: numbers operations, logs them, asks every replica at once.

- journal: the operations of one service, durable before any replica sees them
- feed: one replica's cursor into the journal
- comparison: what replicas answered, compared with home
- evidence: what is kept of an answer that differed from home's
- session: one service in use: journal, feeds, first response wins
- pace: how long a replica took of late
- reads: to whom goes what changes nothing
- endpoints: a replica at home or on a surrogate, as a feed sees it
- routes: how a replica gets to a surrogate, and what that is going to take; history: what it took
- planner: what a session knows of routes, and what each begins with
- paths: where this client goes next; prestage: what is brought there ahead of it
- kept: a list in a file of the client's state, as history and paths are
- savings: what surrogates were good for
- page: what a session's web page shows
- foreground: operations first, on the way from the client; pacing: how fast the rest may leave
- sources: chunks of the medium and of home, offered to a surrogate
- replicas: those of a session on surrogates: how one is brought up there, and ended
- quarantine: what is done about one that answered otherwise than home
- runner: a session from its start to its end; moves
- power: what the device can afford now; parking: a session that nobody uses leaves home
- fronts: a local port on which an unmodified program uses the service, one front for each adapter
- running: which sessions run here, and the way to each
- control: the socket on which `satchel status`, `move`, `call` and `stop` reach a running session
- cli: the commands, one file each
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from client.endpoints import SurrogateEndpoint
    from client.foreground import Foreground
    from client.fronts.ports import Served
    from client.fronts.tcp import TcpPort
    from client.journal import Journal
    from client.pacing import Way
    from client.runner import Runner
    from client.session import Session
    from client.settings import ClientSettings
    from client.sources import media_app, relay_app
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "ClientSettings",
    "Foreground",
    "Journal",
    "Runner",
    "Served",
    "Session",
    "SurrogateEndpoint",
    "TcpPort",
    "Way",
    "media_app",
    "relay_app",
]
