# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The chunk cache of a host: docs/caching.md.

- chunk_cache: what machines touch is told to a policy, which names what goes
- shares: each tenant's share of it; warming: what many services have in common, in it beforehand
- chunk_app: chunks of the cache over HTTP, a few requests at a time
"""
