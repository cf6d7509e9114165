# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A client of a surrogate takes more than its part."""

from pathlib import Path

import pytest

from satchel.errors import UsageError
from tests.client.world import World
from wire import HttpClient


def peak_kib() -> int:
    """The most memory that this process, which serves, has had."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


@pytest.mark.parametrize("path", ["/v1/replicas", "/v1/fits", "/v1/staged"])
def test_json_that_takes_25_times_its_size_is_not_parsed(world: World, path: str) -> None:
    body = b"[" + b"[]," * (8 << 20) + b"1]"
    headers = {"Content-Type": "application/json"}
    with HttpClient(world.spots["a"].socket) as client:
        before = peak_kib()
        with pytest.raises(UsageError, match="JSON may have"):
            client.request("POST", path, body=body, headers=headers)
        assert peak_kib() - before < 256 << 10
