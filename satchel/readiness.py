# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting until something can be read, whatever its descriptor's number is. A process with a
thousand streams has descriptors beyond 1023, which `select` refuses."""

from __future__ import annotations

import resource
import select
from collections.abc import Sequence
from typing import Protocol, TypeVar

DESCRIPTORS = 16 << 10
"""As many as a process of ours is allowed to have where the system lets it."""


class HasDescriptor(Protocol):
    """A socket, a pipe, a file."""

    def fileno(self) -> int: ...


S = TypeVar("S", bound=int | HasDescriptor)


def readable(sources: Sequence[S], seconds: float | None = None) -> list[S]:
    """Those of the sources that can be read, or have ended; none once `seconds` are over. None:
    however long it takes."""
    poll = select.poll()
    numbers = [source if isinstance(source, int) else source.fileno() for source in sources]
    for number in numbers:
        poll.register(number, select.POLLIN)
    found = {number for number, _ in poll.poll(None if seconds is None else seconds * 1000)}
    return [source for source, number in zip(sources, numbers, strict=True) if number in found]


def allow_descriptors() -> None:
    """Let this process have as many descriptors as it may, up to DESCRIPTORS."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
