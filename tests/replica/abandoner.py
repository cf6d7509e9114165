# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program with a replica of a scripted guest, for tests that kill it: `python -m ... FOLDER`."""

import sys
from pathlib import Path

from tests.replica.conftest import Bench

if __name__ == "__main__":
    bench = Bench(Path(sys.argv[1]))
    bench.boot(bench.replica())
    print("running", flush=True)
    sys.stdin.read()
