# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Power cuts while media are written, on the kernel's own vfat and exfat: tests/chunkstore/
power_cut.py in a machine with Debian's cloud kernel, whatever kernel this host has."""

import json
import sys
from pathlib import Path

import pytest

from testbed import debian_kernel
from tests.needs import requires

pytestmark = [
    pytest.mark.nightly,
    requires("root", "qemu-system-x86_64", "mmdebstrap", "dmsetup", "mkfs.vfat", "mkfs.exfat"),
]

MODULES = ("loop", "dm_mod", "dm_log_writes", "vfat", "nls_ascii", "nls_cp437", "exfat")
CUTS = 200


@pytest.mark.parametrize("kind", ["vfat", "exfat"])
def test_a_medium_pulled_out_at_any_moment(kind: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.media.power_cut", kind, str(CUTS)]
    with (tmp_path / "said").open("wb") as said:
        status = debian_kernel.run(argv, seconds=1800, output=said.fileno(), modules=MODULES)
    text = (tmp_path / "said").read_text(errors="replace")
    assert status == 0, text[-4000:]
    report = next(json.loads(line) for line in text.splitlines() if line.startswith('{"kind"'))
    assert report["cuts"] == CUTS
    assert report["went_on"] > CUTS / 5
    assert len(report["opened"]) >= 5  # generations, and none
    assert [report[what] for what in ("journal_checked", "medium_checked", "checked")] == [0, 0, 0]
    print(text)


def test_a_medium_that_runs_full(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.media.full_medium", "vfat", "exfat"]
    with (tmp_path / "said").open("wb") as said:
        status = debian_kernel.run(argv, seconds=900, output=said.fileno(), modules=MODULES)
    text = (tmp_path / "said").read_text(errors="replace")
    assert status == 0, text[-4000:]
    reports = [json.loads(line) for line in text.splitlines() if line.startswith('{"kind"')]
    assert [report["kind"] for report in reports] == ["vfat", "exfat"]
    print(text)
