# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""An ordinary user's cells, attacked: `python -m tests.sandbox.as_user FOLDER`.

FOLDER is his, and empty. Prints one JSON object: why there are no cells (empty), what limits them,
and, by the part that the attacker is in the place of, all that it could do."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from sandbox import Cells
from satchel.confinement import HOST
from tests.sandbox.site import MIB, Site, processes_of
from tests.waiting import eventually


def main(folder: Path) -> dict[str, Any]:
    cells = Cells()
    found: dict[str, Any] = {"user": os.geteuid(), "reason": cells.reason, "limits": cells.text}
    if cells.reason:
        return found
    site = Site(folder)
    try:
        for name, room, machine in (
            ("machine", site.cell, True),
            ("helper", site.cell, False),
            ("host", HOST, True),
        ):
            found[name] = json.loads(site.attack("everything", room, machine=machine))
        found["survey"] = json.loads(site.attack("survey", machine=False))["writable"]
        found["memory MiB"] = int(site.attack("memory").split()[-1])
        found["file MiB"] = int(site.attack("file", machine=False)) // MIB
        found["own"] = str(site.own)
        found["secret"] = str(site.secret)
        site.begin("forks", site.cell).ended(120.0)
        found["forks"] = int((site.folder / "forks.log").read_text())
    finally:
        site.close()
    eventually(lambda: not processes_of(site.folder))
    found["left"] = processes_of(site.folder)
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))), flush=True)
