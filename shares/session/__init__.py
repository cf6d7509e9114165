# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""File sessions: the files that an application or a guest has open, which move between nodes.

- session: open files, their positions, and the writes that home may lack
- handoff: a session on its way from one node to another (MEFS, Table I)
- dirty queue: operations that reach the old node during a handoff
- delayed queue: operations that reach the new node before the session

docs/examples/handoff shows an application that moves. Guests move by `guestshares`, which uses the
records. Modules: records (a session on the wire), session, host (the sessions of a node, and the
three calls), transport (how a handoff crosses a connection).
"""

from shares.session.host import HandoffOver, HandoffRefused, Mode, SessionHost
from shares.session.records import VERSION as SESSION_VERSION
from shares.session.records import (
    Handoff,
    OpenFileRecord,
    OperationKind,
    OperationReply,
    Record,
    SessionHeader,
    SessionOperation,
    pack_all,
    unpack,
)

__all__ = [
    "SESSION_VERSION",
    "Handoff",
    "HandoffOver",
    "HandoffRefused",
    "Mode",
    "OpenFileRecord",
    "OperationKind",
    "OperationReply",
    "Record",
    "SessionHeader",
    "SessionHost",
    "SessionOperation",
    "pack_all",
    "unpack",
]
