# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program that makes cells, for tests that kill it: `python -m tests.sandbox.starter FOLDER
[keep]`.

One after another; or one alone, in which something runs.
"""

import sys
from itertools import count
from pathlib import Path

from replica.folder import RunFolder
from sandbox import CellMounts, Cells

if __name__ == "__main__":
    cells = Cells()
    print("running", flush=True)
    for number in count():
        folder = RunFolder(Path(sys.argv[1], str(number)))
        cell = cells.room(CellMounts(folder.path), memory=1 << 20, processors=1, kvm=False)
        if "keep" in sys.argv:
            cell.start(["sleep", "600"], folder.path / "sleep.log")
            print("kept", flush=True)
            sys.stdin.read()
        cell.run(["/bin/true"])
        cell.end()
        folder.remove()
