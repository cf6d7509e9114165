# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The routes of one replica over HTTP, for home and for surrogates.

- routes: one table of them, below a prefix of each daemon's
- served replica: a replica as such a daemon offers it to a client
"""

from hosting.routes import CLIENT_HEADER, ServedReplica, replica_routes

__all__ = ["CLIENT_HEADER", "ServedReplica", "replica_routes"]
