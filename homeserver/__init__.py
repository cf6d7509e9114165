# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The home server: where a service lives for good.

- cli: the commands, one file each
- api: all of home over HTTP; page, metrics, preflight: what its owner sees
- deltas_api: copies for machines that lead elsewhere, and deltas from them
- home: the store and all services of one owner
- media: what goes between home and portable media; store: care of the store; edge: nodes of shares
  at surrogates
- guests: what guests ask for beyond their machines
- services: each service's machine, log and checkpoints; shares: which folders nodes use as one, and
  the socket at which they join (shares.home)
- settings: home.toml
- retention: which versions and checkpoints stay; registry: folders of things by name;
  machine_options: what a machine is to be; jobs: long requests; places: what paths lead to

Imports go down this list, and what stands on one line does not know each other (`.importlinter`).
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from homeserver import shares
    from homeserver.home import Home
    from homeserver.services.service import Service
    from homeserver.settings import HomeSettings
else:
    __getattr__ = deferred(__name__)

__all__ = ["Home", "HomeSettings", "Service", "shares"]
