# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""File sessions of applications: they outlive the application, and move between nodes.

- session: the files that an application has open, their positions, and the writes that home has
  perhaps not yet (OFS, Section 3.2: session management)
- handoff: a session on its way from one node to another (MEFS, Table I)
- dirty queue: operations that came to the old node during a handoff
- delayed queue: operations that came to the new node before it had the dirty queue

    session = Session(node, "editor", Path("editor.session"))
    file = session.open("notes", os.O_RDWR | os.O_CREAT)
    session.write(file, b"dear diary")
    # kill -9, and the application starts again
    session = Session(node, "editor", Path("editor.session"))
    session.write(file, b", today")       # where it was

Modules: records (what a session is on disk and on the wire), store (the file), session, host (the
sessions of a node, and handoffs), mobile (an application that goes from host to host).
"""

from shares.session.host import Handoff, HandoffOver, Host, Mode
from shares.session.mobile import MobileSession
from shares.session.records import VERSION as SESSION_VERSION
from shares.session.records import Answer, File, Head, Kind, Operation, Record, pack_all, unpack
from shares.session.session import Session, SessionDamaged

__all__ = [
    "SESSION_VERSION",
    "Answer",
    "File",
    "Handoff",
    "HandoffOver",
    "Head",
    "Host",
    "Kind",
    "MobileSession",
    "Mode",
    "Operation",
    "Record",
    "Session",
    "SessionDamaged",
    "pack_all",
    "unpack",
]
