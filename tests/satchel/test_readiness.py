# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for what can be read, with descriptors of any number."""

import os
import resource
import socket
import subprocess
import sys

import pytest

from satchel.readiness import DESCRIPTORS, allow_descriptors, readable

HIGH = 1500


def test_a_descriptor_beyond_1023_is_waited_for() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= HIGH:
        allow_descriptors()
    reading, writing = os.pipe()
    high = os.dup2(reading, HIGH)
    try:
        assert readable([high], 0.0) == []
        os.write(writing, b"x")
        assert readable([high], 60.0) == [high]
        os.read(high, 1)
        os.close(writing)
        assert readable([high, reading]) == [high, reading]
    finally:
        os.close(high)
        os.close(reading)


def test_only_what_can_be_read_is_named() -> None:
    silent, ours = socket.socketpair()
    loud, theirs = socket.socketpair()
    with silent, ours, loud, theirs:
        theirs.send(b"x")
        assert readable([silent, loud], 60.0) == [loud]


@pytest.mark.parametrize(("soft", "hard", "wanted"), [(64, 4096, 4096), (64, 20000, DESCRIPTORS)])
def test_a_process_gets_the_descriptors_that_it_may_have(soft: int, hard: int, wanted: int) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < hard:
        pytest.skip("this process may have fewer descriptors")
    program = (
        "import resource; from satchel.readiness import allow_descriptors\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "allow_descriptors(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(said.stdout) == wanted
