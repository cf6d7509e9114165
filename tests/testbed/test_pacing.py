# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The emulator's pacing without a kernel: testbed/link/direction_test.cc."""

import subprocess

from testbed.emulator import PROGRAM


def test_pacing() -> None:
    test = PROGRAM.with_name("satchel-link-pacing-test")
    done = subprocess.run([test], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "memory is bounded" in done.stdout
