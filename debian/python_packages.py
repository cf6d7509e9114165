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
    "python3-cffi-backend",
    "python3-jeepney",
    "python3-jinja2",
    "python3-markupsafe",
    "python3-rich",
    "python3-segno",
    "python3-spake2",
    "python3-tomlkit",
    "python3-zeroconf",
)
"""Debian 12's are new enough. cryptography's wheel needs python3-cffi-backend."""

LINE = re.compile(r"(?P<wheel>\S+==\S+ --hash=\S+) +# (?P<package>\S+) (?P<minimum>\S+)")

FIELD = re.compile(r"^(Package|Version): (\S+)$", re.MULTILINE)


def candidates(packages: list[str]) -> dict[str, str]:
    """The versions that apt would install here, of those that there are. One question: apt reads
    all of its lists for each."""
    argv = ["apt-cache", "show", "--no-all-versions", *packages]
    said = subprocess.run(argv, check=False, capture_output=True, text=True).stdout
    found = (
        dict(re.findall(r"^(Package|Version): (\S+)$", one, re.M)) for one in said.split("\n\n")
    )
    return {one["Package"]: one["Version"] for one in found if one}


def new_enough(version: str, minimum: str) -> bool:
    argv = ["dpkg", "--compare-versions", version, "ge", minimum]
    return bool(version) and subprocess.run(argv, check=False).returncode == 0


def main() -> None:
    vendored, depends = [], list(ALWAYS)
    text = Path(__file__).with_name("vendored.txt").read_text()
    lines = [found for line in text.splitlines() if (found := LINE.fullmatch(line))]
    versions = candidates([line["package"] for line in lines])
    for line in lines:
        if new_enough(versions.get(line["package"], ""), line["minimum"]):
            depends.append(f"{line['package']} (>= {line['minimum']})")
        else:
            vendored.append(line["wheel"])
    Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in vendored))
    Path(sys.argv[2]).write_text(", ".join(depends))


if __name__ == "__main__":
    main()
