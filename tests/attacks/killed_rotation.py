# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program that changes a stick's key and is killed before its Nth step in files.

    python -m tests.attacks.killed_rotation FOLDER DATA RECIPIENT STEP

DATA is of a home, and FOLDER has `stick`. For N = 1, 1 + STEP, ... both are copied to FOLDER/N, and
a child process rotates there. It is killed before the Nth time that it opens, makes, renames or
removes a file of the stick or of home's keys. A line is printed for each: N, and `killed` or
`done`; after `done` there is no more. The rotation knows nothing of this: Python's audit events are
what is counted.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from homeserver import HomeSettings
from homeserver.home import Home
from hypervisor import QemuDriver

STEPS = ("open", "os.remove", "os.rename", "os.mkdir", "os.truncate")


def settings_in(folder: Path) -> HomeSettings:
    return HomeSettings(data=folder / "data", run=folder / "run", images=folder / "images")


def die_before(number: int, folders: tuple[Path, ...]) -> None:
    """Kill this process before that step below one of the folders."""
    seen = 0

    def look(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event not in STEPS or not arguments or not isinstance(arguments[0], str | os.PathLike):
            return
        if any(str(arguments[0]).startswith(str(folder)) for folder in folders):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def rotate(folder: Path, recipient: str, number: int) -> None:
    home = Home(settings_in(folder), QemuDriver())
    die_before(number, (folder / "stick", folder / "data" / "media-keys"))
    home.rotate(folder / "stick", [recipient])
    os._exit(0)


def main() -> None:
    top, data, recipient, step = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    number = 1
    while True:
        folder = top / str(number)
        shutil.copytree(data, folder / "data", symlinks=True)
        shutil.copytree(top / "stick", folder / "stick")
        child = os.fork()
        if child == 0:
            try:
                rotate(folder, recipient, number)
            finally:
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            print(number, "done", flush=True)
            return
        if not os.WIFSIGNALED(status):
            raise SystemExit(f"the rotation ended with {status}")
        print(number, "killed", flush=True)
        number += int(step)


if __name__ == "__main__":
    main()
