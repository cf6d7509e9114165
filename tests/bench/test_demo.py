# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is compared of two checkouts' demos, and what a checkout is that plays none."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.demo import compared, play
from satchel.errors import UnavailableError
from tests.waiting import eventually


def summary(walk: float, seconds: float, operation: float) -> dict[str, object]:
    step = {"step": "walk", "where": "to B", "seconds": walk}
    move = {"service": "notes", "mode": "with", "seconds": seconds, "operation_seconds": operation}
    return {"steps": [step, {**step, "seconds": 2 * walk}], "facts": {"moves": [move]}}


def test_what_is_slower_than_the_other_one_misses_the_goal() -> None:
    ours = [summary(0.1, 2.0, 0.5), summary(0.3, 4.0, 0.5)]
    found = {one.name: one for one in compared(ours, [summary(0.1, 2.0, 0.5)])}
    assert found["walk, to B"].ratio == pytest.approx(2.0)
    assert found["walk, to B"].holds is None, "too short to be judged"
    assert found["walk, to B, 2"].value == pytest.approx(0.4)
    move = found["first response of notes with, without the operation"]
    assert (move.value, move.ratio, move.holds) == (3.0, 1.5, False)
    assert found["operation of notes with"].ratio == 1.0


def test_each_checkout_plays_its_own_demo(tmp_path: Path) -> None:
    demo = tmp_path / "scripts" / "demo"
    demo.parent.mkdir()
    says = json.dumps(summary(1.0, 2.0, 3.0))
    demo.write_text(f'#!/bin/sh\nset -e\nmkdir -p "$4"\necho \'{says}\' > "$4/summary.json"\n')
    demo.chmod(0o755)
    assert play(tmp_path, "today", tmp_path / "out") == json.loads(says)
    demo.write_text("#!/bin/sh\necho no room; exit 1\n")
    with pytest.raises(UnavailableError, match="no room"):
        play(tmp_path, "today", tmp_path / "out")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_comparison_that_is_ended_lets_the_demo_put_everything_away(
    tmp_path: Path, number: signal.Signals
) -> None:
    demo = tmp_path / "scripts" / "demo"
    demo.parent.mkdir()
    away = "sleep 1; touch put-away; exit 130"
    demo.write_text(f"#!/bin/bash\ntrap '{away}' TERM\ntouch begun\nwhile :; do sleep 0.1; done\n")
    demo.chmod(0o755)
    argv = [sys.executable, "-c", ENDED, str(tmp_path)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert eventually((tmp_path / "begun").exists)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert (tmp_path / "put-away").exists()


ENDED = """
import pathlib, sys, click
from bench.demo import play
from console import run_program
root = pathlib.Path(sys.argv.pop())
run_program(click.command()(lambda: play(root, "today", root / "out")), "bench.demo")
"""
