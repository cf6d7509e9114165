# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program with OpenSSL asks the kernel for randomness once after each wakening, and not else.

That two machines then differ is tests/services/test_randomness.py's, in real guests.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replay import agent_program
from tests.needs import requires

PRELOAD = agent_program().with_name("satchel-reseed.so")
MOMENT_BYTES = 32
SEED_AT = 16

PROGRAM = f"""
import os, ssl, sys

def draw(what):
    assert len(set(ssl.RAND_bytes(16) for _ in range(3))) == 3
    os.write(1, what)

draw(b"began")
draw(b"again")
with open(sys.argv[1], "r+b") as moment:
    moment.seek({SEED_AT})
    moment.write(b"wakened!")
draw(b"wakened")
draw(b"later")
"""


def asked(folder: Path, *, moment: bool) -> dict[str, int]:
    """How often the program asked the kernel for randomness before each word that it said."""
    file = folder / "moment"
    file.write_bytes(bytes(MOMENT_BYTES))
    environment = os.environ | {"LD_PRELOAD": str(PRELOAD)}
    if moment:
        environment["SATCHEL_MOMENT"] = str(file)
    calls = folder / "calls"
    strace = ["strace", "-f", "-e", "trace=getrandom,write", "-o", str(calls)]
    argv = [*strace, sys.executable, "-c", PROGRAM, str(file)]
    done = subprocess.run(argv, capture_output=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    counts, count = {}, 0
    for line in calls.read_text().splitlines():
        if "getrandom(" in line:
            count += 1
        for word in ("began", "again", "wakened", "later"):
            if f'write(1, "{word}"' in line:
                counts[word], count = count, 0
    return counts


@requires("strace")
@pytest.mark.parametrize("moment", [True, False], ids=["carried", "without-the-file"])
def test_openssl_is_seeded_once_after_each_wakening(tmp_path: Path, moment: bool) -> None:
    counts = asked(tmp_path, moment=moment)
    assert counts["again"] == counts["later"] == 0
    assert (counts["wakened"] > 0) == moment
