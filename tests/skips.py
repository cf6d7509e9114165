# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Skips are counted: in CI and with --nightly, which install all that tests need, one that
tests/expected-skips.txt does not name is a failure.

A line of that file is a pattern of test names as pytest prints them, and after # the reason why
CI's machine cannot run them.
"""

import fnmatch
import os
from pathlib import Path

import pytest

EXPECTED = Path(__file__).with_name("expected-skips.txt")


def patterns() -> list[str]:
    lines = [line.split("#")[0].strip() for line in EXPECTED.read_text().splitlines()]
    return [line for line in lines if line]


def refuse_unexpected(
    report: pytest.TestReport | pytest.CollectReport, config: pytest.Config
) -> None:
    """Turn the report of an unexpected skip into one of a failure, where nothing may be lacking."""
    complete = os.environ.get("CI") == "true" or config.getoption("--nightly")
    if not report.skipped or hasattr(report, "wasxfail") or not complete:
        return
    if any(fnmatch.fnmatchcase(report.nodeid, pattern) for pattern in patterns()):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid}: unexpected skip: {reason}"
