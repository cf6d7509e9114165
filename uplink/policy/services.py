# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Descriptions of services: what their requests mean, and the dialogue of an upload.

The paper keeps communication formats in XML that an interpreter goes by (section VI-C), so that a
service which asks for one request more needs another description and no other program. Here they
are TOML; docs/formats/uplink.md has every key. What a description says is checked.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from typing import Any

from satchel.errors import UsageError

VERSION = 1

_PLACE = re.compile(r"\{([a-z_]+)\}")


class BadDescription(UsageError):
    """The description of a service is wrong."""


class RequestKind(Enum):
    """What a request is about."""

    LISTING = "listing"  # what is in a folder, or what a file is
    READ = "read"  # a file's content
    UPLOAD = "upload"  # a whole file; may be held
    CHANGE = "change"  # anything else that changes something at a path
    OTHER = "other"  # none of our business


class Outcome(Enum):
    """What an answer to a step of an upload means."""

    DONE = "done"
    CONFLICT = "conflict"  # the condition does not hold any more
    ACCESS = "access"  # another password is needed
    LATER = "later"  # the same may work another time
    REFUSED = "refused"  # it never will


@dataclass(frozen=True)
class Pattern:
    """Requests of a kind. headers: what they must match, whole; without: those that they must not
    have; query: what the address's must match, whole, None where it may be any"""

    kind: RequestKind
    methods: frozenset[str]
    headers: tuple[tuple[str, re.Pattern[str]], ...] = ()
    without: frozenset[str] = frozenset()
    query: re.Pattern[str] | None = None

    def matches(self, method: str, headers: Mapping[str, str], query: str) -> bool:
        return (
            method in self.methods
            and (self.query is None or self.query.fullmatch(query) is not None)
            and not self.without & headers.keys()
            and all(pattern.fullmatch(headers.get(name, "")) for name, pattern in self.headers)
        )


@dataclass(frozen=True)
class DialogueStep:
    """One request of an upload's dialogue. target, headers: with `{path}` and what earlier steps
    took in braces; content: whether the file's bytes are its body; conditional: whether the
    condition of the upload goes along; done: statuses of success; take: values for later steps,
    each `header:NAME` or `json:KEY.KEY`"""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    content: bool
    conditional: bool
    done: frozenset[int]
    take: tuple[tuple[str, str], ...] = ()

    def filled(self, values: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Target and headers with the values in their places. Raises BadDescription for one that
        nobody took."""
        return _fill(self.target, values), {k: _fill(v, values) for k, v in self.headers}

    def taken(self, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """What the answer gives to later steps. Raises BadDescription where it is not there."""
        return {name: _take(rule, headers, body) for name, rule in self.take}


@dataclass(frozen=True)
class Description:
    """One service's. listing: the format of its lists, `webdav`, `s3` or none; fresh: seconds for
    which an answer is taken for true; waits: seconds for which an upload that cannot be held waits
    for others, its program with it; outcomes: of statuses"""

    name: str
    what: str
    listing: str
    fresh: float
    patterns: tuple[Pattern, ...]
    steps: tuple[DialogueStep, ...]
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    deltas: str = ""
    waits: float = 0.0

    def kind(self, method: str, headers: Mapping[str, str], query: str = "") -> RequestKind:
        """Of a request. headers: by names in lower case."""
        for pattern in self.patterns:
            if pattern.matches(method, headers, query):
                return pattern.kind
        return RequestKind.OTHER

    def outcome(self, step: DialogueStep, status: int) -> Outcome:
        if status in step.done:
            return Outcome.DONE
        return self.outcomes.get(status, Outcome.LATER if status >= 500 else Outcome.REFUSED)


def read_description(name: str, text: str) -> Description:
    """The description of that name. Raises BadDescription."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadDescription(f"cannot read the description {name}", why=str(error)) from error
    if table.get("version") != VERSION:
        raise BadDescription(
            f"cannot read the description {name}",
            why=f"it is of version {table.get('version')!r}, this program knows {VERSION}",
        )
    reader = _Reader(name)
    known = {"version", "what", "listing", "deltas", "fresh", "waits"}
    reader.only(table, known | {"request", "step", "outcomes"}, "the description")
    listing = table.get("listing", "")
    reader.need(listing in ("", "webdav", "s3"), "listing is webdav, s3 or nothing")
    deltas = table.get("deltas", "")
    reader.need(deltas in ("", "sync", "etags", "tree"), "deltas is sync, etags, tree or nothing")
    return Description(
        name=name,
        what=reader.text(table.get("what", ""), "what"),
        listing=listing,
        fresh=reader.seconds(table.get("fresh", 0), "fresh"),
        waits=reader.seconds(table.get("waits", 0), "waits"),
        patterns=tuple(reader.pattern(each) for each in reader.tables(table, "request")),
        steps=tuple(reader.step(each) for each in reader.tables(table, "step")),
        outcomes=reader.outcomes(table.get("outcomes", {})),
        deltas=deltas,
    )


def built_in_descriptions() -> dict[str, str]:
    """Their texts by name: those that come with the package."""
    folder = resources.files("uplink.policy").joinpath("services")
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".toml"))
    return {name.removesuffix(".toml"): folder.joinpath(name).read_text("utf-8") for name in names}


class _Reader:
    """Takes values of TOML apart, or says which one is wrong."""

    def __init__(self, name: str) -> None:
        self.name = name

    def need(self, holds: bool, why: str) -> None:
        if not holds:
            raise BadDescription(f"the description {self.name} cannot be meant", why=why)

    def only(self, table: Mapping[str, Any], known: set[str], what: str) -> None:
        unknown = sorted(set(table) - known)
        self.need(not unknown, f"{what} has unknown keys: {', '.join(unknown[:5])}")

    def text(self, value: Any, key: str) -> str:
        self.need(isinstance(value, str) and "\n" not in value, f"{key} is one line of text")
        return str(value)

    def seconds(self, value: Any, key: str) -> float:
        good = type(value) in (int, float) and 0 <= value < 1e6
        self.need(good, f"{key} is a number of seconds")
        return float(value)

    def tables(self, table: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        found = table.get(key, [])
        good = isinstance(found, list) and all(isinstance(each, dict) for each in found)
        self.need(good and len(found) <= 64, f"{key} is at most 64 tables")
        return list(found)

    def strings(self, value: Any, key: str) -> list[str]:
        good = isinstance(value, list) and all(isinstance(each, str) for each in value)
        self.need(good, f"{key} is a list of texts")
        return list(value)

    def pairs(self, value: Any, key: str) -> list[tuple[str, str]]:
        self.need(isinstance(value, dict), f"{key} is a table")
        return [(name, self.text(text, f"{key}.{name}")) for name, text in value.items()]

    def statuses(self, value: Any, key: str) -> frozenset[int]:
        good = isinstance(value, list) and all(type(x) is int and 100 <= x < 600 for x in value)
        self.need(good, f"{key} is a list of HTTP statuses")
        return frozenset(value)

    def pattern(self, table: dict[str, Any]) -> Pattern:
        self.only(table, {"kind", "methods", "headers", "without", "query"}, "a request")
        kinds = {kind.value: kind for kind in RequestKind}
        kind = table.get("kind")
        self.need(kind in kinds, f"the kind of a request is one of {', '.join(kinds)}")
        headers = tuple(
            (name.lower(), self.expression(text, re.IGNORECASE))
            for name, text in self.pairs(table.get("headers", {}), "headers")
        )
        query = self.text(table["query"], "query") if "query" in table else None
        return Pattern(
            kind=kinds[str(kind)],
            methods=frozenset(self.strings(table.get("methods", []), "methods")),
            headers=headers,
            without=frozenset(x.lower() for x in self.strings(table.get("without", []), "without")),
            query=None if query is None else self.expression(query),
        )

    def expression(self, text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
        try:
            return re.compile(text, flags)
        except (re.error, RecursionError) as error:
            raise BadDescription(f"the description {self.name} has a bad pattern") from error

    def step(self, table: dict[str, Any]) -> DialogueStep:
        keys = {"method", "target", "headers", "content", "conditional", "done", "take"}
        self.only(table, keys, "a step")
        flags = [table.get(key, False) for key in ("content", "conditional")]
        self.need(all(isinstance(flag, bool) for flag in flags), "content is true or false")
        take = tuple(self.pairs(table.get("take", {}), "take"))
        good = all(rule.startswith(("header:", "json:")) for _, rule in take)
        self.need(good, "take is header:NAME or json:KEY.KEY")
        method = self.text(table.get("method", ""), "method")
        self.need(re.fullmatch(r"[A-Z]{1,20}", method) is not None, "method is one of HTTP")
        target = self.text(table.get("target", "{path}"), "target")
        headers = tuple(self.pairs(table.get("headers", {}), "headers"))
        done = self.statuses(table.get("done", []), "done")
        self.need(bool(done), "a step says which statuses are its success: done")
        return DialogueStep(method, target, headers, flags[0], flags[1], done, take)

    def outcomes(self, value: Any) -> dict[int, Outcome]:
        self.need(isinstance(value, dict), "outcomes is a table")
        kinds = {kind.value: kind for kind in Outcome if kind is not Outcome.DONE}
        self.only(value, set(kinds), "outcomes")
        return {
            status: kinds[key]
            for key, statuses in value.items()
            for status in self.statuses(statuses, f"outcomes.{key}")
        }


def _fill(text: str, values: Mapping[str, str]) -> str:
    def place(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise BadDescription(f"no step took {found[1]}", fix="mend the service's description")
        return values[found[1]]

    return _PLACE.sub(place, text)


def _take(rule: str, headers: Mapping[str, str], body: bytes) -> str:
    source, _, key = rule.partition(":")
    value: Any = headers.get(key.lower())
    if source == "json":
        try:
            value = json.loads(body)
            for part in key.split("."):
                value = value[part]
        except (ValueError, KeyError, TypeError, RecursionError):
            value = None
    if not isinstance(value, str) or re.search(r"[\r\n\0]", value):
        raise BadDescription(f"the answer has no {key}", fix="mend the service's description")
    return value
