# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus, a program in Go, carried: what it has measured comes along, and it goes on
measuring."""

import json
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.client.carried import carried_world
from tests.machines import MACHINE
from tests.needs import requires
from tests.services.examples import example
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "curl", "sshd", "ssh"),
]

PATIENCE_SECONDS = 300.0


def asked(port: int, query: str) -> float:
    """The one number that a query of PromQL gives; 0 where it gives nothing."""
    url = f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}"
    argv = ["curl", "-sS", "--fail", url]
    done = subprocess.run(argv, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    found = json.loads(done.stdout)["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0


MEASURED = "sum_over_time(up[1h])"
"""How often it has answered itself: on a busy machine not each time within its 10 s."""

STARTED_ANEW = "resets(prometheus_tsdb_head_samples_appended_total[1h])"
"""Its start by the clock would not tell: the guest's clock is set when it goes on."""


def measures_on(port: int) -> bool:
    """Wait for the next of its own numbers."""
    before = asked(port, MEASURED)
    return eventually(lambda: asked(port, MEASURED) > before, PATIENCE_SECONDS)


def test_what_was_measured_comes_along(tmp_path: Path) -> None:
    example("prometheus", tmp_path)
    with carried_world("prometheus") as world:
        session = world.session()
        assert measures_on(session.port)
        count = asked(session.port, MEASURED)
        print(session.move("a"))
        assert measures_on(session.port)
        assert asked(session.port, STARTED_ANEW) == 0
        assert asked(session.port, MEASURED) > count
