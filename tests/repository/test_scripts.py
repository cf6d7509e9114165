# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The scripts that a newcomer runs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.needs import requires
from tests.repository import tree

SHELL = [path for path in tree.files() if tree.text(path).startswith("#!/bin/bash")]


@pytest.mark.parametrize("script", SHELL, ids=str)
def test_a_shell_script_parses_can_be_run_and_stops_at_errors(script: Path) -> None:
    subprocess.run(["bash", "-n", str(tree.ROOT / script)], check=True)
    assert os.access(tree.ROOT / script, os.X_OK)
    assert any(line.startswith(("set -eu", "set -u")) for line in tree.text(script).splitlines())


def test_the_commands_of_the_readme_are_there() -> None:
    assert {Path("scripts") / name for name in ("bench", "bootstrap", "check", "demo", "test")} <= {
        *SHELL
    }


def test_a_second_bootstrap_does_nothing() -> None:
    script = str(tree.ROOT / "scripts" / "bootstrap")
    subprocess.run([script], check=True, capture_output=True)
    second = subprocess.run([script], check=True, capture_output=True, text=True)
    assert second.stdout == ""


def test_bootstrap_leaves_an_environment_alone_that_is_a_link(tmp_path: Path) -> None:
    """In a second working tree it emptied the environment of the first one."""
    environment, other = tmp_path / "environment", tmp_path / "tree"
    environment.mkdir()
    (environment / "kept").touch()
    (other / "scripts").mkdir(parents=True)
    locked = ("requirements.lock", "requirements-dev.lock")
    lists = ("scripts/packages.txt", "scripts/test-packages.txt")
    for name in ("pyproject.toml", "setup.py", "scripts/bootstrap", *locked, *lists):
        shutil.copy(tree.ROOT / name, other / name)
    (other / ".venv").symlink_to(environment)
    run = subprocess.run(
        [str(other / "scripts" / "bootstrap")], check=False, capture_output=True, text=True
    )
    assert run.returncode != 0
    assert "is a link" in run.stderr
    assert [path.name for path in environment.iterdir()] == ["kept"]


def test_package_says_what_is_missing_before_it_compiles(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    for name in ("package", "package-packages.txt"):
        shutil.copy(tree.ROOT / "scripts" / name, tmp_path / "scripts" / name)
    (tmp_path / "scripts/bootstrap").write_text("#!/bin/sh\necho it compiles for minutes\n")
    (tmp_path / "scripts/bootstrap").chmod(0o755)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "readlink", "sed", "tr"):
        (programs / name).symlink_to(str(shutil.which(name)))
    argv = [str(programs / "bash"), str(tmp_path / "scripts/package")]
    run = subprocess.run(
        argv, check=False, capture_output=True, text=True, env={"PATH": str(programs)}
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert "dh is missing: apt-get install debhelper" in " ".join(run.stderr.split())


@requires("root")
def test_a_host_whose_sources_have_no_debian_13_is_told_apart(tmp_path: Path) -> None:
    """CI counts exit code 77 as skipped, and every other one as failed."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "archive").mkdir()
    for name in ("debian-13", "packages.txt"):
        shutil.copy(tree.ROOT / "scripts" / name, tmp_path / "scripts" / name)
    apt = tmp_path / "apt-get"
    apt.write_text(f"#!/bin/sh\necho Debian file:{tmp_path}/archive main\n")
    apt.chmod(0o755)
    run = subprocess.run(
        [str(tmp_path / "scripts" / "debian-13"), "true"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 77
    assert f"no trixie at file:{tmp_path}/archive" in run.stderr
    assert not (tmp_path / "build").exists()
