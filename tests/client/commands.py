# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The real `satchel`, as processes of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SATCHEL = Path(sys.executable).with_name("satchel")


class Commands:
    """`satchel` with one settings file."""

    def __init__(self, config: Path) -> None:
        self.config = config

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SATCHEL, "--config", self.config, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def sees(self, *words: str) -> Any:
        """What the command answers with --json; it must succeed."""
        done = self.types(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
