# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""An application with a session, as a process that is killed and begun again.

SOCKET SESSION BUFFER LINES: writes lines "00000007" to the file `log`, from where its session was,
and tells each on stdout when it is written. It waits while the test has not taken what it told: the
pipe has room for a page.
"""

import fcntl
import os
import sys
from functools import partial
from pathlib import Path

from shares.node import Buffer, Member
from shares.session import Session
from wire import Caller

WIDTH = 9


def main(socket: str, path: str, buffer: str, lines: int) -> None:
    fcntl.fcntl(sys.stdout, fcntl.F_SETPIPE_SZ, 4096)
    call = partial(Caller, Path(socket))
    member = Member(call, "photos", "app", Buffer(Path(buffer), 1 << 22))
    session = Session(member.node, "app", Path(path))
    files = session.files()
    file = next(iter(files)) if files else session.open("log", os.O_RDWR | os.O_CREAT)
    print("position", session.position(file), flush=True)
    for line in range(session.position(file) // WIDTH, lines):
        session.write(file, b"%08d\n" % line)
        print(f"{line:>255}", flush=True)  # 16 of them fill the pipe
    session.end()
    member.close()
    print("end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
