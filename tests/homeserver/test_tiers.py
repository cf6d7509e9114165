# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`image try` of a static program that asks the kernel for time and randomness, in real guests."""

import subprocess
from pathlib import Path

import pytest

from tests.homeserver.program import Program
from tests.homeserver.test_trial import program, tried
from tests.needs import requires

__all__ = ["program"]

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    pytest.mark.timeout(1200),
    requires("qemu-system-x86_64", "mmdebstrap", "apt-get", "debugfs", "fuse"),
]

SOURCE = Path(__file__).parents[1] / "replay" / "asking.c"


def static_service(folder: Path) -> Path:
    """The recipe of that program."""
    own = folder / "asking"
    (own / "files" / "srv").mkdir(parents=True)
    made = own / "files" / "srv" / "asking"
    subprocess.run(["cc", "-O2", "-static", "-o", made, SOURCE], check=True)
    text = 'name = "asking"\nextends = "base"\ncommand = "exec /srv/asking 8080"\n'
    (own / "recipe.toml").write_text(text)
    return own


def test_what_calls_the_kernel_itself_replays_where_the_kernel_asks(
    program: Program, tmp_path: Path
) -> None:
    program.json("image", "build", static_service(tmp_path))
    found = tried(program, "asking", 20)
    assert (found["contract"], found["tier"]) == ("replay", "notifier")
    assert found["needs"] == ["time", "randomness"]
