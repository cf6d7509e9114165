# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Steps of a story: what they are recorded as, and what a person sees meanwhile."""

import io
import json
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from testbed import Testbed, measure, recorder
from testbed.recorder import Recorder

pytestmark = pytest.mark.netns


def play(bed: Testbed, console: Console) -> Recorder:
    made = Recorder(bed, console)
    with made.step("send", "client", expected=10_000) as row:
        measure.datagrams(bed.client, bed.host("home"), 10, size=1000)
        row.facts["sent"] = 10
        time.sleep(0.3)
    return made


def test_a_step_is_a_row_with_the_bytes_of_every_link(bed: Testbed, tmp_path: Path) -> None:
    output = io.StringIO()
    made = play(bed, Console(file=output, width=200))
    made.write(tmp_path / "summary.json", more=1)
    summary = json.loads((tmp_path / "summary.json").read_text())
    (row,) = summary["steps"]
    assert summary["more"] == 1
    assert row["up"]["wifi-a"] == 10_000
    assert row["down"]["home"] == 10_000
    assert row["down"]["hotspot-b"] == 0
    assert re.fullmatch(r"send \(client\): \d+\.\d s  sent 10\n", output.getvalue())


def test_a_terminal_shows_how_far_it_is(bed: Testbed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "WATCH_SECONDS", 0.02)
    output = io.StringIO()
    play(bed, Console(file=output, width=200, force_terminal=True))
    assert "10.0/10.0 kB" in output.getvalue()
