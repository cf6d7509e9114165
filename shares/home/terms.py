# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What an owner says of a share: which folder it is, and how its files are treated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from satchel.errors import NotFoundError, UsageError
from satchel.names import check_name
from shares.node import IMMUTABLE, PRIVATE
from shares.protocol import POLICIES

MAPPED = "mapped"
"""The mark of files that several nodes may map at once, also SQLite's shared memory."""

LOGS = ("sync", "async", "off")

RULE_LIMIT = 1000
"""Each open looks at all of them."""


@dataclass(frozen=True)
class PathRule:
    """What files are treated by whose path below the share is like `glob`: `*` and `?` stand for
    slashes too. policy, relaxation: None is what others say of the file. mark: `private`: each of
    these files is private to the node that opens it first; `immutable`: it is written once"""

    glob: str
    policy: str | None = None
    relaxation: float | None = None
    mark: str | None = None

    def __post_init__(self) -> None:
        if not self.glob or self.glob.startswith("/"):
            raise UsageError(
                f"no path of a share is like {self.glob!r}", fix="give it without a / ahead"
            )
        _check_terms(self.policy, self.relaxation)
        if self.mark not in {None, "", PRIVATE, IMMUTABLE, MAPPED}:
            raise UsageError(
                f"no mark {self.mark}", why=f"there are {PRIVATE}, {IMMUTABLE}, {MAPPED}"
            )


@dataclass(frozen=True)
class ShareRecord:
    """A share as its owner described it.

    path: of the folder, absolute; policy: of coherence; relaxation: seconds; log: `sync`, `async`
    or `off`; rules: for some of the files, the later before the earlier
    """

    name: str
    path: str
    policy: str = "delayed-update"
    relaxation: float = 0.0
    log: str = "async"
    rules: tuple[PathRule, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "share")
        _check_terms(self.policy, self.relaxation)
        if self.log not in LOGS:
            raise UsageError(f"no log {self.log}", why=f"there are {', '.join(LOGS)}")
        if len(self.rules) > RULE_LIMIT:
            raise UsageError(f"a share has at most {RULE_LIMIT} rules")

    @property
    def relaxed(self) -> float:
        """The smallest relaxation of any file, in seconds."""
        rules = [rule.relaxation for rule in self.rules if rule.relaxation is not None]
        return min([self.relaxation, *rules])

    def mark(self, path: str) -> str:
        """The mark of the file with that path: PRIVATE, IMMUTABLE or ""."""
        found = [rule.mark for rule in self.rules if fnmatchcase(path, rule.glob)]
        return next((mark for mark in reversed(found) if mark is not None), "")

    def terms(self, path: str) -> tuple[str, float]:
        """Policy and relaxation of the file with that path below the share."""
        policy, relaxation = self.policy, self.relaxation
        for rule in self.rules:
            if fnmatchcase(path, rule.glob):
                policy = policy if rule.policy is None else rule.policy
                relaxation = relaxation if rule.relaxation is None else rule.relaxation
        return policy, relaxation

    def with_terms(
        self,
        glob: str | None,
        policy: str | None,
        relaxation: float | None,
        mark: str | None = None,
    ) -> ShareRecord:
        """With other terms for the share, or for files like `glob`: what is None stays as it is. A
        rule that is changed is the last of the rules. Raises UsageError."""
        if glob is None and mark is not None:
            raise UsageError("a share has no mark", fix="say which files, with --path GLOB")
        if glob is None:
            policy = self.policy if policy is None else policy
            relaxation = self.relaxation if relaxation is None else relaxation
            return replace(self, policy=policy, relaxation=relaxation)
        before = next((rule for rule in self.rules if rule.glob == glob), PathRule(glob))
        policy = before.policy if policy is None else policy
        relaxation = before.relaxation if relaxation is None else relaxation
        rule = PathRule(glob, policy, relaxation, before.mark if mark is None else mark)
        return replace(self, rules=(*self.without(glob).rules, rule))

    def without(self, glob: str) -> ShareRecord:
        """Without a rule for files like `glob`."""
        return replace(self, rules=tuple(rule for rule in self.rules if rule.glob != glob))


Described = Callable[[], ShareRecord]
"""Says what the owner wants of a share now: the record may be another for later opens."""


@dataclass(frozen=True)
class Terms:
    """What an owner asks to be otherwise. glob: of which files, None for the share; forget: that
    there be no rule for these files"""

    glob: str | None = None
    policy: str | None = None
    relaxation: float | None = None
    forget: bool = False
    mark: str | None = None

    def change(self, record: ShareRecord) -> ShareRecord:
        """Raises UsageError."""
        if not self.forget:
            return record.with_terms(self.glob, self.policy, self.relaxation, self.mark)
        if self.glob is None or (self.policy, self.relaxation, self.mark) != (None,) * 3:
            raise UsageError("forget a rule, or change it", fix="give --path GLOB --forget alone")
        if not any(rule.glob == self.glob for rule in record.rules):
            raise NotFoundError(f"share {record.name} has no rule for {self.glob}")
        return record.without(self.glob)


def _check_terms(policy: str | None, relaxation: float | None) -> None:
    if policy is not None and policy not in POLICIES:
        raise UsageError(f"no policy {policy}", why=f"there are {', '.join(POLICIES)}")
    if relaxation is not None and not (math.isfinite(relaxation) and relaxation >= 0):
        raise UsageError("the relaxation must be seconds, at least 0")
