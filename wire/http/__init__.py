# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP, to peers, browsers and services of the internet.

- client: to a peer at a Unix socket; server: an application at one; intake: what it takes of a
  request
- openapi: what an API offers; metrics: a daemon's numbers for Prometheus
- pages: a daemon's page for a browser on the same machine, in `page`; sites: whose requests are
  refused there; websocket: those of a browser
- upstream: a service of the internet; credentials: a person's password there
"""
