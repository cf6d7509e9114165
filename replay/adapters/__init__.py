# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Adapters: how requests of one protocol become operations, and responses become comparable.

An adapter is a module (or any object) with
- `kind`, its name in recipes and manifests;
- `normalise(response, operation)` and `label(operation)`, see `Adapter`: all that replicas need;
- `encode(..., number=, time_ns=, seed=)` and `decode(normalised response)`, which only the front
  end of that protocol calls, in the client, with whatever arguments suit the protocol.

How a second one is written: the agent opens one TCP connection per operation, writes the payload,
and reads until the service closes. So `encode` makes a request after whose answer the service
closes the connection (HTTP: "Connection: close"), carries the operation's time and seed to the
service if its protocol has a place for them, and leaves out what belongs to the front end's own
connection. `normalise` takes out of the answer what may differ between replicas. Put the module
here, add it to `ADAPTERS`, and let it pass tests/replay/test_adapters.py.
"""

from replay.adapters import http
from replay.adapters.adapter import Adapter
from satchel.errors import UnsupportedError

ADAPTERS: dict[str, Adapter] = {http.kind: http}
"""Every adapter by its kind."""


def for_kind(kind: str) -> Adapter:
    """The adapter of that name. UnsupportedError if this version has none."""
    if kind not in ADAPTERS:
        known = ", ".join(sorted(ADAPTERS))
        raise UnsupportedError(f"there is no adapter {kind!r}", why=f"this version has: {known}")
    return ADAPTERS[kind]


__all__ = ["ADAPTERS", "Adapter", "for_kind", "http"]
