# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The device that a person carries: numbers operations, logs them, asks every replica at once.

- cli: the commands, one file each
- control: the socket on which `satchel status`, `move`, `call` and `stop` reach a running session;
  page: what its web page shows; roaming: it goes along with its person;
  arrival: it comes to the surrogate that the person named
- service: a session from its start to its end, and its moves
- contracts: who executes, of a replayed and of a carried service; streams: what is around a leader
- medium: the stick in the person's hand, while sessions use it
- moves: replicas at surrogates: which one, by which route; fronts: local ports on which unmodified
  programs use a service; shares: mounts
- session: one service in use: journal, feeds, first response wins
- places: home and surrogates, and what is asked of each
- state: what is kept between sessions, a file each
- platform: settings, and what the device can afford now

Imports go down this list, and what stands on one line does not know each other (`.importlinter`).
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from client.fronts.tcp import TcpPort
    from client.moves.sources import media_app, relay_app
    from client.places.surrogate import Surrogate
    from client.platform.activity_gate import ActivityGate
    from client.platform.settings import ClientSettings
    from client.platform.shaper import PathRate
    from client.service import ServiceSession
    from client.session.journal import Journal
    from client.session.session import Session
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "ActivityGate",
    "ClientSettings",
    "Journal",
    "PathRate",
    "ServiceSession",
    "Session",
    "Surrogate",
    "TcpPort",
    "media_app",
    "relay_app",
]
