# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Tests that run under a real KVM, on a machine that need not have one: Debian's kernel in an
emulated machine, whose processor has SVM, runs pytest there, and its report comes back."""

from __future__ import annotations

import os
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed import debian_kernel
from tests.machines import HANDED

MEMORY = "4G"
"""Half of it is the disk that is written to there: a store, beside a machine's memory."""

TEST_SECONDS = 400
"""For one test there: the longest of the essentials takes a minute on a quiet host."""

LEFT = "left"
"""The folder of what is written there."""

REPORT = "report.xml"

OVERDUE = "from pytest-timeout"
"""In what a test says that is ended because it takes too long."""


@dataclass(frozen=True)
class Report:
    """failures: by the name of a test that ran, what went wrong; empty where it passed. said: all
    that the machine said."""

    failures: dict[str, str]
    said: str

    def require(self, name: str) -> None:
        """That the test of that name ran there and passed."""
        assert name in self.failures, f"{name} did not run there:\n{self.said[-6000:]}"
        assert not self.failures[name], f"{self.failures[name]}\n{self.said[-3000:]}"


def run_there(
    tests: Sequence[str],
    handed: Path,
    *options: str,
    seconds: int = TEST_SECONDS,
    notes: Path | None = None,
) -> Report:
    """Run these tests in the machine, with SATCHEL_HANDED, the folder `handed`. What they write to
    LEFT in it stays. seconds: for each of them, and four times as long for all. notes: where the
    machine of tests.machines was handed on to, so that none boots there.

    A machine that does not come as far as a report, or in which a test came to no end, is started
    once more, and why is printed: the host may have had no time for it. Raises GuestFailed where
    that does not help.
    """
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", "-v"]
    pytest += ["-o", f"timeout={seconds}", f"--junit-xml={handed / LEFT / REPORT}"]
    there = {"SATCHEL_HANDED": str(handed), "SATCHEL_TEST_ACCELERATOR": "kvm", "CI": "true"}
    there |= {name: os.environ[name] for name in ("SATCHEL_TEST_CACHE",) if name in os.environ}
    there |= {HANDED: str(notes)} if notes else {}
    variables = [f"{name}={value}" for name, value in there.items()]
    command = ["env", *variables, *pytest, "--durations=20", *options, *tests]
    try:
        report = _run(command, handed, 4 * seconds)
        late = [name for name, failure in report.failures.items() if OVERDUE in failure]
        if not late:
            return report
        print(f"{report.said}\nthe machine with KVM is started once more: too late: {late}")
    except debian_kernel.GuestFailed as error:
        print(f"the machine with KVM is started once more: {error}")
    return _run(command, handed, 4 * seconds)


def _run(command: Sequence[str], handed: Path, seconds: float) -> Report:
    """One try."""
    left, said = handed / LEFT, handed / "said"
    shutil.rmtree(left, ignore_errors=True)
    left.mkdir()
    try:
        with said.open("wb") as output:
            debian_kernel.run(
                command,
                seconds=seconds,
                output=output.fileno(),
                modules=("kvm_amd",),
                memory=MEMORY,
                processors=1,  # the other one of two is for the tests beside
                shared=handed,
            )
        return Report(_failures(left / REPORT), said.read_text(errors="replace"))
    except (debian_kernel.GuestFailed, OSError, ET.ParseError) as error:
        tail = said.read_text(errors="replace")[-4000:]
        raise debian_kernel.GuestFailed(f"no report came: {error}", why=tail) from error


def _failures(report: Path) -> dict[str, str]:
    found = {}
    for case in ET.parse(report).iter("testcase"):
        wrong = [*case.iter("failure"), *case.iter("error"), *case.iter("skipped")]
        found[case.attrib["name"]] = "\n".join(
            f"{one.tag}: {one.get('message', '')}\n{one.text or ''}" for one in wrong
        )
    return found
