# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One line of the machines is broken at a time, and the checker notices each."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import pytest

from shares.protocol import (
    WriteInvalidate,
    WriteUpdate,
    home_machine,
    home_questions,
    home_records,
    home_transitions,
    node_blocks,
    node_files,
    node_machine,
    node_requests,
    node_rounds,
)
from tests.shares.history import check, check_staleness
from tests.shares.protocol.faults import Plan, play
from tests.shares.protocol.test_simulator import CROWDED, Lively, often

SYNC = Plan(operations=1200, between=0.1, closes=0.1, evicts=0.1)
QUIET = Plan(operations=1200, faults=(), closes=0.1)
OFF = replace(SYNC, log="off", lease=inf, faults=("pause", "stall", "break"), closes=0.2)
CUTS = Plan(operations=1200, faults=(), closes=0.2, cuts=0.05, attributes=True, policy=WriteUpdate)
AHEAD = Plan(operations=1200, faults=(), closes=0.3, ahead=True, threads=1)
RELAXED_CUTS = replace(CUTS, relaxation=0.3)
RELAXED = Plan(operations=1200, faults=(), relaxation=0.3)
CLOSES = Plan(operations=1200, faults=(), files=3, holds=3, closes=0.8, log="off", attributes=True)
VARIED = replace(
    CLOSES, operations=1000, nodes=2, threads=1, policy=WriteUpdate, evicts=0.1, cuts=0.1
)
REOPENED = replace(VARIED, operations=2500, nodes=3, files=1, holds=1, cuts=0.25, closes=1.0)
STALLED = Plan(
    operations=1200,
    threads=3,
    files=1,
    blocks=2,
    writes=0.1,
    faults=("stall",),
    between=0.1,
    lease=0.12,
    policy=WriteInvalidate,
    holds=50,
)
MAKES = replace(CLOSES, makes=0.3, removes=0.1)
REMOVES = replace(MAKES, log="async", removes=0.6, late=True)
WINDOWS = Plan(operations=1200, faults=(), log="off", windows=True, closes=0.2, holds=20)
FULL = Plan(operations=1200, faults=(), log="off", full=0.1, evicts=0.3, closes=0.2, threads=4)
LOST = replace(SYNC, log="off", faults=("stall", "break"), between=0.2, closes=0.2)
KILLED = replace(LOST, faults=("stall", "kill"))
CLEAN = replace(
    CLOSES,
    operations=800,
    faults=("stall",),
    between=0.05,
    lease=inf,
    nodes=2,
    threads=1,
    blocks=1,
    writes=0.3,
    files=8,
    closes=0.1,
    holds=6,
)
OVERTAKEN = replace(
    CLOSES,
    operations=600,
    faults=("pause", "stall"),
    between=0.05,
    lease=inf,
    files=1,
    closes=0.2,
    holds=4,
    late=True,
)
HOLES = replace(CUTS, cuts=0.2, holes=0.8, blocks=4, closes=0.05)
TIMES = replace(CUTS, cuts=0.15, closes=0.05, blocks=2)
NATIVE_CUTS = replace(
    TIMES,
    nodes=2,
    closes=0.8,
    holds=6,
    files=4,
    log="off",
    threads=1,
    policy=WriteInvalidate,
    cuts=0.2,
)


@dataclass(frozen=True)
class Mutation:
    """In a function of `owner`, `old` becomes `new`. Seen by one of the seeds of the plan."""

    owner: Any
    name: str
    old: str
    new: str
    plan: Plan = QUIET


MUTATIONS = {
    "home does not wait for acknowledgements": Mutation(
        home_machine.HomeMachine, "_ask", "if request is not None:", "if False:"
    ),
    "home does not invalidate sharers": Mutation(
        home_questions, "questions", "for node in sorted(sharers):", "for node in ():"
    ),
    "home does not ask the owner": Mutation(
        home_questions, "questions", "else None", "else None if True else None; owner = None"
    ),
    "home gives what was cut although another has it": Mutation(
        home_records.FileRecord, "free", "record.sharers <= {node} and not waits", "True", CUTS
    ),
    "home takes up requests for one block at once": Mutation(
        home_records.Request, "overlaps", "return ", "return False and "
    ),
    "home forgets who got a copy": Mutation(
        home_machine.HomeMachine, "_fetched", "record.sharers |= {node}", "pass"
    ),
    "home forgets who got an update": Mutation(
        home_records.FileRecord,
        "pushed",
        "record.sharers |= {reader}",
        "pass",
        replace(QUIET, policy=WriteUpdate),
    ),
    "home does not take the native file back": Mutation(
        home_machine, "needed", "if known.native not in {None, request.node}:", "if False:"
    ),
    "home drops what a pusher sent": Mutation(
        home_machine.HomeMachine, "_given", "if fresh:", "if False:"
    ),
    "home does not replay the log": Mutation(
        home_records.FileRecord, "lose", "return None", "return (); return None", SYNC
    ),
    "home takes content of any grant": Mutation(
        home_records.FileRecord, "takes", "record = ", "return True; record = ", OFF
    ),
    "home leaves a lost owner the owner": Mutation(
        home_records.FileRecord, "lose", "record.owner, record.version", "_, record.version", SYNC
    ),
    "a node keeps an invalidated copy": Mutation(
        node_machine, "invalidate", "block.valid, block.shared", "_, block.shared"
    ),
    "a node keeps what another one is going to write": Mutation(
        node_machine, "recall", "block.valid = False", "pass"
    ),
    "a node writes a shared block": Mutation(
        node_machine.NodeMachine, "writable", "block.owned", "block.valid"
    ),
    "a node stays the owner after a push": Mutation(
        node_machine.NodeMachine,
        "_push",
        "block.shared = True",
        "pass",
        replace(QUIET, policy=WriteUpdate),
    ),
    "a node forgets to give what it wrote": Mutation(
        node_machine, "recall", "if block.dirty:", "if False:"
    ),
    "a node does not look at its lease": Mutation(
        node_machine.NodeMachine,
        "leased",
        "self._leased = until",
        "pass",
        replace(STALLED, blocks=1, between=0.05, holds=5),
    ),
    "a node reads what its log has not confirmed": Mutation(
        node_machine.NodeMachine,
        "readable",
        "or block.logging",
        "",
        replace(SYNC, faults=("kill",)),
    ),
    "a node trusts its copies after a lost connection": Mutation(
        node_machine.NodeMachine,
        "reset",
        "block.valid, block.shared, block.pushed = False, True",
        "_, _, _ = 0, 0",
        OFF,
    ),
    "a node does not send again what may be lost": Mutation(
        node_machine.NodeMachine, "reset", "if block.dirty or block.given:", "if False:", OFF
    ),
    "a node takes what came with a shared open for the latest": Mutation(
        node_machine.NodeMachine,
        "open",
        "if comes:",
        "if True:",
        replace(QUIET, attributes=True, closes=0.2),
    ),
    "a node puts what came late with an open over what it has": Mutation(
        node_machine.NodeMachine,
        "open",
        "if block.valid:",
        "if block.owned:",
        replace(
            SYNC, attributes=True, late=True, policy=often, blocks=0, evicts=0.0, faults=("pause",)
        ),
    ),
    "a node keeps what was invalidated before its open is answered": Mutation(
        node_machine.NodeMachine,
        "answer",
        "invalidate(self._files.get(message.file)",
        "invalidate((lambda f: f if f is not None and f.grant else None)"
        "(self._files.get(message.file))",
        replace(
            VARIED,
            threads=4,
            operations=1300,
            ahead=True,
            cuts=0.0,
            windows=True,
            nodes=2,
            closes=0.1,
            holds=20,
            files=2,
            policy=WriteInvalidate,
        ),
    ),
    "home does not count who got a copy before its open": Mutation(
        home_machine.HomeMachine,
        "_fetched",
        "record.sharers |= {node}",
        "record.sharers |= {node} & known.open",
        AHEAD,
    ),
    "a node takes the answer to an open for the last word": Mutation(
        node_machine.NodeMachine,
        "_latest",
        "return max(",
        "return min(said, ",
        replace(OFF, late=True),
    ),
    "a node takes what it gives with Engage for written under what it knew": Mutation(
        node_machine,
        "engage",
        "message.grant",
        "known.grant",
        replace(OFF, late=True, operations=2400),
    ),
    "a node asks to own blocks of a version that it has not": Mutation(
        node_requests,
        "_versions",
        "else block.version",
        "else 1 + block.version",
        FULL,
    ),
    "a node forgets to send what it counts as pushed": Mutation(
        node_machine.NodeMachine,
        "did_write",
        "return self._pushes(file, found)",
        "return self._pushes(file, found)[:0]",
        replace(QUIET, policy=Lively),
    ),
    "a node takes a stale copy over what it wrote": Mutation(
        node_machine,
        "copied",
        "if block.owned:",
        "if False:",
        replace(
            VARIED, threads=4, files=1, blocks=1, faults=("stall", "break"), between=0.1, cuts=0.0
        ),
    ),
    "a node calls other content by a version": Mutation(
        node_blocks.Block, "came", "self.version = version", "self.version = version + 1"
    ),
    "home does not say that copies grow old": Mutation(
        home_machine, "outdated", "sharer in record.sharers - {node}", "sharer in ()", RELAXED
    ),
    "home does not say that a cut makes copies old": Mutation(
        home_machine.HomeMachine,
        "_finish",
        "return [*ahead, FinishReclaim",
        "return [FinishReclaim",
        RELAXED_CUTS,
    ),
    "who has a file cut keeps what it had": Mutation(
        home_questions, "questions", "record.sharers & {wants.by}", "NOBODY", RELAXED_CUTS
    ),
    "home forgets who got a copy that may grow old": Mutation(
        home_machine.HomeMachine, "_fetched", "record.sharers |= {node}", "pass", RELAXED
    ),
    "what was answered late takes the newer copy off the list": Mutation(
        home_machine.HomeMachine,
        "answer",
        "if about.keep is Keep.NOTHING:",
        "if True:",
        replace(
            RELAXED,
            relaxation=0.1,
            threads=1,
            files=1,
            blocks=1,
            log="async",
            faults=("stall", "pause"),
            between=0.2,
            lease=5.0,
            holds=1,
            closes=0.8,
            evicts=0.4,
            windows=True,
        ),
    ),
    "a copy that was invalidated does not expire": Mutation(
        node_machine.NodeMachine,
        "readable",
        "min(block.expires, self._heard",
        "(self._heard",
        RELAXED,
    ),
    "a copy of which nothing is heard does not expire": Mutation(
        node_machine.NodeMachine,
        "readable",
        "self._heard + known.relaxation",
        "self._leased",
        replace(STALLED, log="off", relaxation=0.1, lease=5.0),
    ),
    "a copy expires later than its relaxation": Mutation(
        node_machine, "invalidate", "heard +", "heard + 0.2 +", RELAXED
    ),
    "a lent copy does not expire": Mutation(
        node_machine, "copied", "sent + known.relaxation if lent else inf", "inf", RELAXED
    ),
    "home takes the ownership of what is lent": Mutation(
        home_transitions,
        "recalled",
        "if kept and recall.keep is Keep.LENT:",
        "if False:",
        RELAXED,
    ),
    "a node that lends does not say that it stays the owner": Mutation(
        node_machine, "recall", "kept[number] = True", "pass", RELAXED
    ),
    "a node names content that a cut made it drop": Mutation(
        node_machine.NodeMachine, "trim", "block.version = 0", "pass", VARIED
    ),
    "a node takes what was given before it closed the file": Mutation(
        node_machine.NodeMachine,
        "_given_unasked",
        "takes and not late",
        "takes",
        replace(REOPENED, files=2, log="async"),
    ),
    "a copy that found no room is read": Mutation(
        node_machine.NodeMachine, "unstored", "block.valid = False", "pass", FULL
    ),
    "a grant that found no room is written in part": Mutation(
        node_machine.NodeMachine, "unstored", "block.hollow = True", "pass", FULL
    ),
    "what came to a full disk has the version of what is there": Mutation(
        node_machine.NodeMachine, "unstored", "block.version = 0", "pass", FULL
    ),
    "a grant without content is not given back": Mutation(
        node_machine.NodeMachine,
        "unwritten",
        "if self.block(request.file, n).hollow",
        "if False",
        replace(FULL, nodes=2, threads=1, files=3, policy=WriteUpdate, cuts=0.1, attributes=True),
    ),
    "a native file's copies stay after it was kept, unknown to home": Mutation(
        node_machine, "engage", "block.valid = False\n            continue", "continue", CLOSES
    ),
    "a native file is taken away without its content": Mutation(
        node_machine, "engage", "owned if block.dirty", "copies if block.dirty", VARIED
    ),
    "home forgets the numbers of a file that all have closed": Mutation(
        home_machine.HomeMachine, "_tidy", "max(self._base, known.newest) + 1", "self._base", MAKES
    ),
    "a file that was made ahead has nothing that home lacks": Mutation(
        node_machine, "made", "True, False, True, True", "True, False, False, False", MAKES
    ),
    "what was written before home made the file has no grant": Mutation(
        node_files.NodeFile, "granted", "block.grant or grant", "block.grant", REMOVES
    ),
    "a window writes what others have copies of": Mutation(
        node_machine,
        "rights",
        "owned = not block.shared",
        "owned = True",
        replace(WINDOWS, closes=0.1, files=2, policy=WriteInvalidate, evicts=0.1, attributes=True),
    ),
    "a window is used after the lease": Mutation(
        node_machine.NodeMachine,
        "until",
        "else self._leased",
        "else inf",
        replace(STALLED, log="off", windows=True, blocks=1, between=0.05, holds=5),
    ),
    "a change of times takes nothing from anybody": Mutation(
        home_records.ReclaimRequest, "takes", "number == ATTRIBUTES or", "", TIMES
    ),
    "a cut throws away the block of which a part stays": Mutation(
        home_questions, "questions", "wants.discards(number)", "number >= wants.first", TIMES
    ),
    "a native file's cut throws away the block of which a part stays": Mutation(
        home_machine,
        "needed",
        "cut = wants.discard",
        "cut = wants.first",
        NATIVE_CUTS,
    ),
    "a hole throws away what is behind it": Mutation(
        home_records.ReclaimRequest, "discards", "< self.kept", "", HOLES
    ),
    "a hole in a native file throws away what is behind it": Mutation(
        home_machine,
        "needed",
        "wants.kept == inf",
        "True",
        replace(NATIVE_CUTS, holes=0.8, blocks=4),
    ),
    "what home cut has the version that it had": Mutation(
        home_records.FileRecord, "changed", "record.version += 1", "pass", TIMES
    ),
    "what was written before a cut comes home after it": Mutation(
        home_records.FileRecord,
        "changed",
        "record.granted(grant)",
        "pass",
        replace(TIMES, faults=("break",), between=0.1),
    ),
    "a lost node's copies count": Mutation(
        home_records.FileRecord, "lose", "record.sharers -= {node}", "pass", LOST
    ),
    "what a lost node had alone stays its own": Mutation(
        home_records.FileRecord, "lose", "self.native, self.seized", "_, self.seized", KILLED
    ),
    "what a lost node brings is newer than what others have seen": Mutation(
        home_machine.HomeMachine, "_shown", "self._grant()", "record.grant", LOST
    ),
    "home waits for the answers of a lost node": Mutation(
        home_machine.HomeMachine, "lost", "if asked.node == node", "if False", LOST
    ),
    "home does not tell who has it alone that others read what it has written": Mutation(
        home_machine.HomeMachine,
        "_next",
        "actions.append(self._ask_back(known, request.file, UNCUT, now))",
        "known.engage(); known.engaging = None",
        CLOSES,
    ),
    "who writes does not wait for who had it alone": Mutation(
        home_machine, "awaits_engaged", "if known.engaging is None", "if True", CLEAN
    ),
    "an open overtakes Engage": Mutation(
        home_machine,
        "awaits_engaged",
        "request.node == known.engaging",
        "False",
        replace(OVERTAKEN, nodes=2, operations=320),
    ),
    "home believes that what is written is not": Mutation(
        home_machine.HomeMachine, "open", "if writes:", "if False:", CLOSES
    ),
    "copies of who had it alone do not count": Mutation(
        home_transitions, "engaged", "known.record(number).sharers |= {node}", "pass", CLOSES
    ),
    "what an access needs at one time is asked for in parts": Mutation(
        node_rounds.Rounds, "look", "self.answered and not self.rest", "False", CROWDED
    ),
    "edges and what is overwritten are asked for apart, again and again": Mutation(
        node_rounds.Rounds, "may_ask", "not (", "True or (", replace(CROWDED, longer=0.0)
    ),
    "what an owner had does not expire": Mutation(
        node_machine, "recall", "latest + known.relaxation", "inf", RELAXED
    ),
}


def broken(mutation: Mutation) -> Any:
    """The function with the line changed."""
    function = getattr(mutation.owner, mutation.name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(mutation.old) >= 1, "the line is no more"
    scope: dict[str, Any] = {}
    module = sys.modules[function.__module__]
    changed = source.replace(mutation.old, mutation.new)
    exec(compile(changed, mutation.name, "exec"), module.__dict__, scope)
    return scope[mutation.name]


def noticed(plan: Plan) -> bool:
    """By the checker, by an assertion of the machines, or because programs wait for ever."""
    try:
        run = play(plan)
    except (AssertionError, KeyError, ValueError):
        return True
    if run.ended < plan.operations or (run.orderly and run.refused):
        return True
    if plan.relaxation:
        return bool(check_staleness(run.judged, plan.relaxation))
    return bool(check(run.judged))


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_a_broken_line_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation.owner, mutation.name, broken(mutation))
    plan = replace(mutation.plan, limit=400.0)
    assert any(noticed(replace(plan, seed=seed)) for seed in range(1, 9))


@pytest.mark.parametrize(
    "plan",
    [SYNC, QUIET, OFF, RELAXED, RELAXED_CUTS],
    ids=["sync", "quiet", "off", "relaxed", "relaxed cuts"],
)
def test_nothing_is_noticed_where_nothing_is_broken(plan: Plan) -> None:
    assert not any(noticed(replace(plan, seed=seed, operations=400)) for seed in range(1, 4))
