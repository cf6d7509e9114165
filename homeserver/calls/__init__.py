# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the guests of a service ask of their shares, done once for all of its replicas.

- call: a request of a guest's kernel, with the operation that it was made in
- record: the calls that were done, with their replies, for as long as the operations are logged
- keeper: has calls done that are not in the record; answers the others from it
- door: the socket of one service, at which the replicas at surrogates reach its keeper

docs/shares.md, Replicas. Modules: record, performer (the one session of a service), keeper, door,
keepers (of all services).
"""

from homeserver.calls.door import CallDoor
from homeserver.calls.keeper import CallKeeper
from homeserver.calls.keepers import CallKeepers
from homeserver.calls.record import CallRecord

__all__ = ["CallDoor", "CallKeeper", "CallKeepers", "CallRecord"]
