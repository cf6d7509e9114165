# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The dialogue of an upload, as a description has it: one request after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from uplink.policy.services import BadDescription, Description, Outcome
from uplink.policy.upload import Condition


@dataclass(frozen=True)
class StepRequest:
    """target: below the service, percent-encoded; content: whether the file is its body"""

    method: str
    target: str
    headers: Mapping[str, str]
    content: bool


@dataclass(frozen=True)
class StepAnswer:
    """headers: by names in lower case; body: its beginning"""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class DialogueVerdict:
    """What came of a dialogue. why: the last answer, for people; etag: that the service gave"""

    outcome: Outcome
    why: str = ""
    etag: str = ""


def run_dialogue(
    description: Description,
    values: Mapping[str, str],
    headers: Mapping[str, str],
    condition: Condition,
    ask: Callable[[StepRequest], StepAnswer],
) -> DialogueVerdict:
    """Ask all steps, until one is not done.

    values: `path`, `size` and `sha256`; headers: of the program's request, which go with the
    content. Raises BadDescription, and what `ask` raises.
    """
    if not description.steps:
        raise BadDescription(f"{description.name} has no steps", fix="mend it")
    known, why, etag = dict(values), "", ""
    for step in description.steps:
        target, own = step.filled(known)
        sent = (dict(headers) if step.content else {}) | own
        sent |= condition.headers() if step.conditional else {}
        answer = ask(StepRequest(step.method, target, sent, step.content))
        why = f"it answered {answer.status} to {step.method}"
        outcome = description.outcome(step, answer.status)
        if outcome is not Outcome.DONE:
            return DialogueVerdict(outcome, why)
        known |= step.taken(answer.headers, answer.body)
        if step.content:
            etag = answer.headers.get("etag", "")
    return DialogueVerdict(Outcome.DONE, why, etag)
