# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Packages of PyPI for the files of a recipe, as `pip install --target` puts them there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# What is compiled has to run on the processor of any guest.
PORTABLE = " ".join(
    f"-DGGML_{name}=OFF" for name in ("NATIVE", "AVX", "AVX2", "FMA", "F16C", "BMI2", "OPENMP")
)


def packages(requirement: str, folder: Path, place: str) -> dict[str, bytes]:
    """The files of that package and of all that it needs, by path below `place` in the guest.
    folder: where they are kept."""
    done = folder / "complete"
    if not done.exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--upgrade",
            "--target",
            str(folder),
        ]
        subprocess.run([*pip, requirement], check=True, env=os.environ | {"CMAKE_ARGS": PORTABLE})
        done.touch()
    return {
        f"{place}/{path.relative_to(folder)}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
