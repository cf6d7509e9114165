# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Grants of a home, on disk: docs/formats/share.md."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path

from homeserver.registry import read_versioned
from satchel.errors import IntegrityError, NotFoundError, UsageError
from satchel.files import write_durably
from satchel.names import check_name
from satchel.typed import Form

VERSION = 1

_FORM = Form()


class GrantsDamaged(IntegrityError):
    """The file of grants is damaged: no grant counts."""


@dataclass(frozen=True)
class ShareGrant:
    """surrogate: as the client's settings name it; writable: else its node may only read."""

    share: str
    service: str
    surrogate: str
    writable: bool

    def __post_init__(self) -> None:
        check_name(self.share, "share")
        check_name(self.service, "service")
        check_name(self.surrogate, "surrogate")


@dataclass(frozen=True)
class _Grants:
    version: int
    grants: list[ShareGrant]


class GrantRegistry:
    """Thread-safe. Each question is answered from the disk: a grant that was taken back counts for
    nothing from then on, whoever has asked before."""

    def __init__(self, path: Path) -> None:
        """The file need not exist: there are none then."""
        self._path = path
        self._lock = threading.Lock()

    def all(self) -> list[ShareGrant]:
        """Raises GrantsDamaged, UnsupportedError for a newer version."""
        try:
            return read_versioned(self._path, _Grants, VERSION, "the grants").grants
        except FileNotFoundError:
            return []
        except (ValueError, RecursionError, UsageError) as error:
            fix = "remove it, and grant again what surrogates may use"
            raise GrantsDamaged(f"cannot read {self._path}", why=str(error), fix=fix) from error

    def of(self, service: str, surrogate: str) -> ShareGrant | None:
        """What the guest of that service may use there. A service has one share. Raises as
        `all`."""
        found = [g for g in self.all() if (g.service, g.surrogate) == (service, surrogate)]
        return found[0] if found else None

    def add(self, grant: ShareGrant) -> None:
        """In the place of what that service was granted there before; durable on return."""
        with self._lock:
            kept = [g for g in self.all() if not _same_place(g, grant.service, grant.surrogate)]
            self._keep([*kept, grant])

    def remove(self, share: str, service: str, surrogate: str) -> None:
        """Raises NotFoundError."""
        with self._lock:
            known = self.all()
            kept = [
                g for g in known if not (g.share == share and _same_place(g, service, surrogate))
            ]
            if len(kept) == len(known):
                raise NotFoundError(
                    f"{service} has no grant of {share} at {surrogate}",
                    fix="`satchel-home share grants`",
                )
            self._keep(kept)

    def _keep(self, grants: list[ShareGrant]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        ordered = sorted(grants, key=lambda g: (g.share, g.service, g.surrogate))
        values = _FORM.plain(_Grants(VERSION, ordered))
        write_durably(self._path, json.dumps(values, indent=1).encode() + b"\n")


def _same_place(grant: ShareGrant, service: str, surrogate: str) -> bool:
    return (grant.service, grant.surrogate) == (service, surrogate)
