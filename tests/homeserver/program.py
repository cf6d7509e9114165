# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The real `satchel-home`, as a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("satchel-home")
SECONDS = 120.0


class Program:
    """`satchel-home` with one configuration; a terminal that it could find is none of ours."""

    def __init__(self, folder: Path, **variables: str) -> None:
        """All of its folders are below `folder`."""
        self.folder = folder
        self.environment = {
            **os.environ,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            **variables,
        }
        self.environment.pop("SATCHEL_STORE", None)
        self.environment.update(variables)

    def run(self, *arguments: object, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *map(str, arguments)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def json(self, *arguments: object, seconds: float = SECONDS) -> Any:
        """What the command answers with --json; it must succeed."""
        done = self.run(*arguments, "--json", seconds=seconds)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def fails(self, code: int, *arguments: object) -> dict[str, str]:
        """The error that the command ends with; its exit code must be `code`."""
        done = self.run(*arguments, "--json")
        assert done.returncode == code, (done.returncode, done.stderr)
        plain = self.run(*arguments)
        assert plain.returncode == code, (plain.returncode, plain.stderr)
        lines = [line for line in plain.stderr.splitlines() if line.startswith("satchel-home: ")]
        assert len(lines) == 1, plain.stderr
        error: dict[str, str] = json.loads(done.stderr.splitlines()[-1])["error"]
        assert error.keys() == {"code", "what", "why", "fix"}
        return error

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """In the background; what it says is in `log`."""
        with self.log.open("w") as log:
            return subprocess.Popen(
                [PROGRAM, *map(str, arguments)],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
            )

    @property
    def log(self) -> Path:
        return self.folder / "log"
