# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""An application that writes to a share while its file session moves between two nodes.

    handoff.py SOCKET SHARE FOLDER     SOCKET: shares.sock of a home; FOLDER: for the nodes' buffers

It appends numbered lines to the file `journal`. After half of them the session moves. Both nodes
are in this process. On two machines the connection between them would be TCP, for example.
"""

import os
import socket
import sys
import threading
from functools import partial
from pathlib import Path

from shares.node import Buffer, Member
from shares.session import HandoffOver, OperationKind, SessionHost, SessionOperation
from wire import Caller

NAME, FILE, LINES = "editor", 3, 200


class Application:
    """An application with one file, at one of two nodes."""

    def __init__(self, old: SessionHost, new: SessionHost) -> None:
        self.old, self.new, self.host = old, new, old
        old.begin(NAME)

    def do(self, operation: SessionOperation) -> None:
        """Do it at the node where the session is."""
        try:
            answer = self.host.ask(NAME, operation)
        except HandoffOver:
            self.host = self.new
            answer = self.host.ask(NAME, operation)
        if answer.result().error:
            raise OSError(answer.result().error, "the operation failed")

    def move(self) -> None:
        """Move the session. Operations wait meanwhile."""
        here, there = socket.socketpair()
        with here, there:
            restoring = threading.Thread(target=self.new.restore_handoff, args=(NAME, there))
            restoring.start()
            self.old.send_handoff(self.old.prepare_handoff(NAME), here)
            restoring.join()


def main(home: str, share: str, folder: str) -> None:
    call = partial(Caller, Path(home))
    members = [
        Member(call, share, name, Buffer(Path(folder, name), 1 << 22)) for name in ("old", "new")
    ]
    application = Application(*(SessionHost(member.node) for member in members))
    application.do(SessionOperation(OperationKind.OPEN, FILE, os.O_WRONLY | os.O_CREAT, b"journal"))
    moving = threading.Thread(target=application.move)
    for number in range(LINES):
        if number == LINES // 2:
            moving.start()
        application.do(SessionOperation(OperationKind.WRITE, FILE, data=b"line %d\n" % number))
    moving.join()
    application.do(SessionOperation(OperationKind.SYNC, FILE))
    application.do(SessionOperation(OperationKind.CLOSE, FILE))
    print(f"{LINES} lines, the session is {application.old.mode(NAME).value} at the old node")
    for member in members:
        member.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
