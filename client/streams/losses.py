# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is told of a leader that was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from client.fronts.requests import LostRequests
from client.platform.settings import HOME
from satchel.timestamps import wall_time

TOLD = 20
"""Lost requests that a person is told one by one."""


@dataclass(frozen=True)
class Loss:
    """A leader that was lost. since, until: the moments, in UTC, between which what was done is
    lost. requests: those that were lost and may have changed something, of ports with the front
    `http`; sent_again: those that the recipe lets be sent twice. successor: who goes on, and
    after_seconds: how long it took until it led."""

    surrogate: str
    since: str
    until: str
    seconds: float
    why: str
    after_seconds: float
    requests: tuple[str, ...] = ()
    sent_again: int = 0
    successor: str = HOME

    @classmethod
    def of(
        cls, surrogate: str, copied: float, lost: float, requests: LostRequests, **more: Any
    ) -> Loss:
        """copied, lost: when what is not lost was frozen, and when it was seen that the leader is
        gone, by `elapsed`; more: the other fields"""
        told, again = tuple(map(str, requests.told)), len(requests.again) + requests.resent
        moments = (_moment(copied), _moment(lost), lost - copied)
        return cls(surrogate, *moments, requests=told, sent_again=again, **more)

    def __str__(self) -> str:
        said = (
            f"{self.surrogate} was lost ({self.why}); {self.successor} goes on from {self.since}: "
            f"what was done in the {self.seconds:.1f} s after that is lost, and connections are "
            "reset"
        )
        if self.sent_again:
            said += f"; requests that are sent again: {self.sent_again}"
        shown, more = ", ".join(self.requests[:TOLD]), len(self.requests) - TOLD
        if shown:
            said += f"; lost requests: {shown}" + (f" and {more} more" if more > 0 else "")
        return said


def _moment(seconds: float) -> str:
    return wall_time(seconds).isoformat(timespec="milliseconds")
