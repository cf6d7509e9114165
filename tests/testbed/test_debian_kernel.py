# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Debian's cloud kernel in a machine, and the links that only it can make here."""

import sys
from pathlib import Path

import pytest

from satchel.errors import UnavailableError
from testbed import debian_kernel
from tests.needs import requires

pytestmark = [pytest.mark.nightly, requires("root", "qemu-system-x86_64", "mmdebstrap")]

TOO_FAST = "100000000 or 200000000"
"""Rates that an emulated processor cannot send at."""


def test_a_command_sees_this_hosts_files_and_changes_none(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("host")
    with (tmp_path / "said").open("wb") as said:
        script = f"cat here; uname -r; echo guest >{tmp_path}/here; exit 7"
        argv = ["sh", "-c", f"cd {tmp_path} && {script}"]
        assert debian_kernel.run(argv, seconds=300, output=said.fileno()) == 7
    lines = (tmp_path / "said").read_text().split()
    assert lines[0].startswith("host")
    assert lines[0].endswith("-cloud-amd64")
    assert (tmp_path / "here").read_text() == "host"


def test_a_command_that_takes_too_long(tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb") as said, pytest.raises(UnavailableError, match="over 10 s"):
        debian_kernel.run(["sleep", "1000"], seconds=10, output=said.fileno())


def test_netem_keeps_the_contract_of_links(tmp_path: Path) -> None:
    chosen = f"netem and not ({TOO_FAST})"
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short"]
    with (tmp_path / "said").open("wb") as said:
        status = debian_kernel.run(
            [*argv, "tests/testbed/test_links.py", "-k", chosen],
            seconds=600,
            output=said.fileno(),
        )
    text = (tmp_path / "said").read_text(errors="replace")
    assert status == 0, text[-4000:]
    assert "20 passed" in text
    assert "skipped" not in text
