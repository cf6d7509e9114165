# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The home server: where a service lives for good.

- records: what home keeps of a service on disk: its description and its checkpoints
- shelf: a folder with a record for each of something
- machines: every replica of a home; rehearsals of new checkpoints
- service: a live service: its log, its first-class replica, the client that holds it
- lease: which client may number a service's operations
- settling: the store gets smaller in the background
- home: the store and all services of one owner
- carry: what goes between home and portable media
- media: what a person does with media: find, look at, verify, recover, eject
- retention: which versions and checkpoints stay
- repair: taking what a store has lost from others
- work: long requests: how far they are, how they are stopped
- shares: which folders nodes use as one, and the socket at which they join (shares.home)
- calls: what services' guests ask of them, done once for all replicas
- uplink: cloud storage that home asks for the mobile
- api: all of that over HTTP
- cli: all of that as commands, one file each
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from homeserver import shares
    from homeserver.home import Home
    from homeserver.service import Service
    from homeserver.settings import HomeSettings
else:
    __getattr__ = deferred(__name__)

__all__ = ["Home", "HomeSettings", "Service", "shares"]
