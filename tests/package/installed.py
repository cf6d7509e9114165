# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A Debian in which the packages are installed, and what a newcomer does there."""

import json
import platform
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.package.clean_root import WITHOUT, CleanRoot

PROGRAMS = ("satchel", "satchel-home", "satchel-surrogate")
PEOPLE = ("ada", "bob")
SUITE = platform.freedesktop_os_release()["VERSION_CODENAME"]
"""The Debian that packages are built for here."""

NEEDED = ["systemd-sysv", "iproute2", "openssh-server"]
"""Beside the packages, what `satchel try` wants, and what boots."""

INSTALLED = "packages installed, with what they need"


def with_packages(
    folder: Path,
    suite: str,
    debs: Sequence[Path],
    took: dict[str, float],
    *,
    more: Sequence[str] = (),
    without: Sequence[str] = WITHOUT,
) -> CleanRoot:
    """They are in /packages as well, and there are two people. took: gets the seconds of it. more:
    packages of Debian; without: units that never start there."""
    made = CleanRoot.make(folder / "root", suite, [*NEEDED, *more], without)
    (made.folder / "packages").mkdir()
    for deb in debs:
        shutil.copy(deb, made.folder / "packages")
    made.run("apt-get", "update")
    began = time.monotonic()
    made.run("sh", "-c", "apt-get install -y --no-install-recommends /packages/*.deb")
    took[INSTALLED] = time.monotonic() - began
    for person in PEOPLE:
        made.run("useradd", "--create-home", "--shell", "/bin/bash", person)
    return made


def tries_everything(root: CleanRoot, took: dict[str, float]) -> Any:
    """What `satchel try` tells an ordinary user who has nothing but the packages."""
    command = "ip link set lo up; exec su - ada -c 'satchel try --once --json'"
    said = root.run("sh", "-c", command)
    told = json.loads(said)
    took.update(told["steps"])
    return told


def steps(took: dict[str, float]) -> str:
    """A line for each, and their sum."""
    rows = [*took.items(), ("all of it", sum(took.values()))]
    return "\n".join(f"{seconds:8.1f}  {step}" for step, seconds in rows)


def known_to(complaints: str) -> str:
    """Without those of a key that systemd knows from 254 on, and passes over before."""
    lines = complaints.splitlines(keepends=True)
    return "".join(line for line in lines if "'DelegateSubgroup'" not in line)
