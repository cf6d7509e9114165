# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which Python packages are Debian's and which go along: python_packages.py REQUIREMENTS DEPENDS.

Of debian/vendored.txt it writes what this Debian lacks as requirements for pip, with their hashes,
and the rest as what satchel-common depends on.
"""

import re
import subprocess
import sys
from pathlib import Path

ALWAYS = (
    "python3-certifi",
    "python3-jeepney",
    "python3-jinja2",
    "python3-markupsafe",
    "python3-rich",
    "python3-segno",
    "python3-spake2",
    "python3-tomlkit",
    "python3-wsproto",
    "python3-zeroconf",
)
"""Debian 12's are new enough."""

LINE = re.compile(r"(?P<wheel>\S+==\S+ --hash=\S+) +# (?P<package>\S+) (?P<minimum>\S+)")


def candidate(package: str) -> str:
    """The version that apt would install here; empty where there is none."""
    argv = ["apt-cache", "show", "--no-all-versions", package]
    said = subprocess.run(argv, check=False, capture_output=True, text=True).stdout
    found = re.search(r"^Version: (\S+)$", said, re.MULTILINE)
    return found[1] if found else ""


def new_enough(version: str, minimum: str) -> bool:
    argv = ["dpkg", "--compare-versions", version, "ge", minimum]
    return bool(version) and subprocess.run(argv, check=False).returncode == 0


def main() -> None:
    vendored, depends = [], list(ALWAYS)
    for line in Path(__file__).with_name("vendored.txt").read_text().splitlines():
        if found := LINE.fullmatch(line):
            if new_enough(candidate(found["package"]), found["minimum"]):
                depends.append(f"{found['package']} (>= {found['minimum']})")
            else:
                vendored.append(found["wheel"])
    Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in vendored))
    Path(sys.argv[2]).write_text(", ".join(depends))


if __name__ == "__main__":
    main()
