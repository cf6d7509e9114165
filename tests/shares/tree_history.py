# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What programs on several nodes did to names, and whether it was one tree.

It was, if all calls can be put into one order, in which none is before one that had ended when it
began, and in which a dictionary answers each as it was answered (Herlihy and Wing's
linearizability, by Wing and Gong's search). A call without an answer happened or did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

Slot = tuple[int, int]
"""A folder, and a name in it."""

Tree = frozenset[tuple[Slot, int]]
"""Names, each with the file that has it."""

EXISTS, ABSENT, DONE = "exists", "absent", "done"


@dataclass(frozen=True)
class TreeCall:
    """kind: create, link, rename, unlink, lookup or list. old: the name that it is about; new: the
    other one, of link and rename. file: which create makes. ended: None where no answer came."""

    kind: str
    old: Slot
    new: Slot
    file: int
    began: float
    ended: float | None = None
    answer: Any = None


def answered(tree: Tree, call: TreeCall) -> tuple[Any, Tree]:
    """What a dictionary of names answers, and what it is then. A rename onto another name of the
    same file does nothing, as POSIX has it."""
    names = dict(tree)
    file, other = names.get(call.old), names.get(call.new)
    answer: Any = DONE
    if call.kind == "list":
        answer = tuple(sorted(names.items()))
    elif call.kind == "create" and file is None:
        names[call.old] = call.file
    elif call.kind == "create":
        answer = EXISTS
    elif file is None:
        answer = ABSENT
    elif call.kind == "lookup":
        answer = file
    elif call.kind == "unlink":
        del names[call.old]
    elif call.kind == "link" and other is not None:
        answer = EXISTS
    else:
        names[call.new] = file
        if call.kind == "rename" and other != file:
            del names[call.old]
    return answer, frozenset(names.items())


def one_tree(before: Tree, calls: Sequence[TreeCall]) -> bool:
    """Whether one order explains all of them."""
    ordered = sorted(calls, key=lambda call: call.began)
    answers = sum(call.ended is not None for call in ordered)
    seen: set[tuple[int, frozenset[int], Tree]] = set()
    waiting = [(0, frozenset[int](), before, 0)]
    while waiting:
        first, later, tree, explained = waiting.pop()
        if explained == answers:
            return True
        while first in later:
            later, first = later - {first}, first + 1
        if (first, later, tree) in seen:
            continue
        seen.add((first, later, tree))
        for at in _next(ordered, first, later):
            answer, after = answered(tree, ordered[at])
            given = ordered[at].ended is not None
            if answer == ordered[at].answer if given else after != tree:
                waiting.append((first, later | {at}, after, explained + given))
    return False


def _next(calls: Sequence[TreeCall], first: int, done: frozenset[int]) -> Iterator[int]:
    """Those that may be the next: no other one had ended before they began."""
    end = inf
    for at in range(first, len(calls)):
        if calls[at].began > end:
            return
        if at not in done:
            ended = calls[at].ended
            end = min(end, inf if ended is None else ended)
            yield at
