# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Each role of a bench has processors of its own, as in life it has a computer of its own.

On one machine home's guest executes what the guest at a café executes, at the same time. Where
both want the same processor, a figure of the café is one of home as well. So what is started at a
host may use some processors only (sched_setaffinity), and so may all that this starts: sshd, the
daemon, machines and what is in their cells. No control group is needed for that, nor can leaving
one undo it.

    1 processor    nothing can be given: roles slow each other
    2              home | surrogates and client
    3              home | surrogates | client
    more           home | a surrogate | ... | client, which has one; the others have equally many

Links and the bench itself use all. Processors that cannot be divided equally belong to none.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from testbed import Host, LinkProfile, Testbed, topology

SURROGATES = "surrogates"


def divide(processors: Sequence[int], roles: Sequence[Sequence[str]]) -> dict[str, frozenset[int]]:
    """Which processors each name of `roles` may use. roles: groups, what needs most first; names
    of one group are apart where there are enough, and groups share, the last first, where there
    are not."""
    groups = [[name] for names in roles for name in names]
    if len(groups) > len(processors):
        groups = [list(names) for names in roles]
    while len(groups) > max(1, len(processors)):
        groups[-2:] = [[*groups[-2], *groups[-1]]]
    if len(groups) == 1:
        return {name: frozenset(processors) for name in groups[0]}
    small = int(groups[-1] == [topology.CLIENT])
    each = (len(processors) - small) // (len(groups) - small)
    found: dict[str, frozenset[int]] = {}
    at = 0
    for names in groups:
        size = 1 if names == [topology.CLIENT] else each
        found |= dict.fromkeys(names, frozenset(processors[at : at + size]))
        at += size
    return found


def shares() -> str:
    """What home, surrogates and the client have on this host, in words."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) == 1:
        return "none: home, surrogates and client share 1 processor, and slow each other"
    by_share: dict[frozenset[int], list[str]] = {}
    roles = [[topology.HOME], [SURROGATES], [topology.CLIENT]]
    for name, share in divide(processors, roles).items():
        by_share.setdefault(share, []).append(name)
    return ", ".join(f"{' and '.join(names)} {len(share)}" for share, names in by_share.items())


def give(*groups: Sequence[Host]) -> None:
    """Divide what this process may use. For hosts where nothing runs yet; groups as in divide."""
    hosts = {host.name: host for group in groups for host in group}
    roles = [[host.name for host in group] for group in groups]
    for name, share in divide(sorted(os.sched_getaffinity(0)), roles).items():
        hosts[name].processors = share


@contextlib.contextmanager
def apart(profile: LinkProfile) -> Iterator[Testbed]:
    """A testbed whose roles are apart. Raises what Testbed.start raises."""
    with Testbed(profile) as bed:
        places = [host for name, host in bed.hosts.items() if name.startswith("surrogate-")]
        give([bed.host(topology.HOME)], places, [bed.client])
        yield bed
