# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which surrogates can run a service's machine: asked before the stick is unplugged.

Each surrogate is asked itself, with what the checkpoint says of its machine, so what it answers is
what it would say to whoever arrives there. It is asked over links of its own, which end with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from client.platform.settings import ClientSettings
from satchel.errors import NotFoundError, SatchelError, UnavailableError
from wire import Link, Links

FIT_SECONDS = 30.0
"""How long a surrogate may take to say it: the first answer tries KVM out."""

CHOICES: Mapping[str, Mapping[str, Any]] = {
    "portable = true": {"portable": True},
    "portable = false, booted under KVM": {"portable": False, "accelerator": "kvm"},
    "portable = false, booted under emulation": {"portable": False, "accelerator": "tcg"},
}
"""What a recipe can say of a machine, and where it first boots: what its spec has then."""


@dataclass(frozen=True)
class Fit:
    """What a surrogate says of a machine. runs: None where it did not answer; accelerator: under
    which it would run there; why, fix: of a refusal or of the silence."""

    surrogate: str
    runs: bool | None
    accelerator: str = ""
    why: str = ""
    fix: str = ""

    def __str__(self) -> str:
        """One line, for people."""
        if self.runs:
            return f"{self.surrogate} runs it under {self.accelerator}"
        answer = "does not answer" if self.runs is None else "cannot run it"
        return f"{self.surrogate} {answer}: {'; '.join(one for one in (self.why, self.fix) if one)}"


def fits(settings: ClientSettings, machine: Mapping[str, Any], names: Sequence[str]) -> list[Fit]:
    """What each surrogate says, in the order of the names. Takes as long as the slowest, which has
    a limit. Raises NotFoundError for a name that is not known."""
    peers = {name: settings.surrogate(name) for name in names}
    if not peers:
        return []
    with (
        Links(settings.run / "l" / f"f{secrets.token_hex(3)}") as links,
        ThreadPoolExecutor(max_workers=len(peers)) as pool,
    ):
        asked = [pool.submit(_ask, links.get(name, peer), machine) for name, peer in peers.items()]
        return [one.result() for one in asked]


def reach(
    settings: ClientSettings, machine: Mapping[str, Any], names: Sequence[str]
) -> dict[str, list[Fit]]:
    """What each surrogate says of that machine as each of CHOICES would make it. Raises what `fits`
    raises."""
    return {choice: fits(settings, {**machine, **said}, names) for choice, said in CHOICES.items()}


def _ask(link: Link, machine: Mapping[str, Any]) -> Fit:
    try:
        if not link.answers():
            raise UnavailableError("nothing answers at its host")
        link.connect()
        answer = link.http.post_json("/v1/fits", dict(machine), timeout=FIT_SECONDS)
        return Fit(link.name, True, accelerator=str(answer.get("accelerator"))[:20])
    except (UnavailableError, NotFoundError) as error:  # not found: by an older Satchel there
        return Fit(link.name, None, why=str(error))
    except SatchelError as error:
        return Fit(link.name, False, why=error.why or error.what, fix=error.fix or "")
