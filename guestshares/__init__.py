# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The files that guests have below /satchel: what they ask, and who does it for all replicas.

- line: the host's end of a guest's port for its shares
- share host: answers for the shares of guests, wherever their machine runs
- call: what a guest's kernel asks of its shares, with the operation in which it asked
- digest: what a request is at every replica of a service
- keeper: has each call of a service done once, for all its replicas
- performer: the one session by which a keeper has calls done
- record: the calls that were done, with their replies, for as long as the operations are logged
- distant keeper: the way from a guest at a surrogate to home's keeper
- edge keeper: does what such a guest asks of content, by a node of the share at the surrogate
- lead: the right to do so, of one surrogate of a service, from an operation on
- gate: between that node and home, so that nothing written comes home before what was read

docs/shares.md, Replicas. Modules: kernel (requests of a guest's kernel, checked), digests, line,
counts (how often a guest asked the same), calls (the calls of one guest), host (who answers for a
guest, and how long), keeper, performer, record, messages (what a surrogate and home's keeper say
to each other), distant.
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from guestshares import messages
    from guestshares.calls import Answered, Call, CallHost, Keeper
    from guestshares.counts import CallName
    from guestshares.distant import DistantKeeper
    from guestshares.edge import EdgeKeeper
    from guestshares.gate import Gate
    from guestshares.host import (
        GuestOperations,
        GuestShares,
        MemberHost,
        ServedSession,
        ShareHost,
        SharesBusy,
        SharesUnserved,
    )
    from guestshares.keeper import CallKeeper, DistantLine
    from guestshares.kernel import ShareMessageInvalid
    from guestshares.line import SharesGone, SharesLine
    from guestshares.record import CallRecord
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "Answered",
    "Call",
    "CallHost",
    "CallKeeper",
    "CallName",
    "CallRecord",
    "DistantKeeper",
    "DistantLine",
    "EdgeKeeper",
    "Gate",
    "GuestOperations",
    "GuestShares",
    "Keeper",
    "MemberHost",
    "ServedSession",
    "ShareHost",
    "ShareMessageInvalid",
    "SharesBusy",
    "SharesGone",
    "SharesLine",
    "SharesUnserved",
    "messages",
]
