# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where this host gets Debian packages: what apt is configured with, read through apt itself.

Only indexes whose origin is Debian count, and every one of them is checked against the key ring of
the Debian archive, so a third party's source on the host never ends up in a guest.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from satchel.errors import UnavailableError, UnsupportedError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHITECTURE = "amd64"

_FIELDS = "$(ORIGIN)\t$(ARCHITECTURE)\t$(CODENAME)\t$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)"
_OPTIONS = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries")


class SourcesMissing(UnavailableError):
    """apt on this host knows no Debian package source."""


@dataclass(frozen=True)
class PackageSources:
    """What mmdebstrap is told.

    lines: of a sources.list. codename: of the release. options: lines of an apt.conf, such as a
    proxy, that the host needs to reach its sources.
    """

    lines: tuple[str, ...]
    codename: str
    options: tuple[str, ...]

    def of(self, codename: str) -> PackageSources:
        """The same places with another release, `trixie-updates` as `bookworm-updates`."""
        lines = []
        for line in self.lines:
            *words, release, component = line.split(" ")
            suite = codename + release.removeprefix(self.codename)
            lines.append(" ".join((*words, suite, component)))
        return PackageSources(tuple(lines), codename, self.options)


def host_sources() -> PackageSources:
    """The Debian sources of this host. Raises SourcesMissing, UnsupportedError without apt."""
    listing = _run("apt-get", "indextargets", "--format", _FIELDS, "Created-By: Packages")
    lines: dict[str, None] = {}
    codename = ""
    for row in listing.splitlines():
        origin, architecture, suite, uri, release, component = row.split("\t")
        if origin != "Debian" or architecture != ARCHITECTURE:
            continue
        lines[f"deb [signed-by={KEYRING}] {uri} {release} {component}"] = None
        if "-" not in suite:
            codename = codename or suite
    if not codename or not KEYRING.exists():
        raise SourcesMissing(
            "this host has no Debian package source to build a guest from",
            why=f"apt has no package index of origin Debian for {ARCHITECTURE}"
            if not codename
            else f"there is no {KEYRING}",
            fix="check apt's sources and run `apt-get update` as root"
            if not codename
            else "install debian-archive-keyring",
        )
    dump = _run("apt-config", "dump", "--no-empty", "Acquire").splitlines()
    return PackageSources(
        tuple(lines), codename, tuple(row for row in dump if row.startswith(_OPTIONS))
    )


def _run(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise UnsupportedError(
            f"no {argv[0]} on this host", fix="build images on a Debian host"
        ) from error
    except subprocess.CalledProcessError as error:
        raise SourcesMissing(
            "cannot ask apt for its package sources", why=str(error.stderr).strip()[-500:]
        ) from error
    return done.stdout
