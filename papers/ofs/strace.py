# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What strace wrote down, as calls: the text of `strace -f -ttt -T -y -s 0 -o FILE`.

- call: one system call of one thread, from its begin to its return
- task: a thread, by its number in the kernel; a process is its first one

A call that other threads' lines interrupt is written in two halves, `<unfinished ...>` and
`<... NAME resumed>`; they are one call here. Calls come in the order of their returns.

The packages that there are do not read these lines: stracetools has no `-ttt` and stops at the `<`
of a path, strace-parser needs `-xx` and a file for each thread, pystrace parses no arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LINE = re.compile(r"(?P<task>\d+) +(?P<at>\d+\.\d+) (?P<what>.*)")
CALL = re.compile(r"(?P<name>\w+)\((?P<rest>.*)", re.DOTALL)
RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)", re.DOTALL)
RETURNED = re.compile(r"\) += (?P<value>\?|-?\w+)(?P<more>.*?)(?: <(?P<took>\d+\.\d+)>)?$")
ENDED = re.compile(r"\+\+\+ (?:exited with|killed by) ")
UNFINISHED = " <unfinished ...>"
DESCRIPTOR = re.compile(r"(?P<number>-?\d+|AT_FDCWD)(?:<(?P<path>.*?)>)?(?P<gone>\(deleted\))?$")
ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-f]{2}|.)", re.DOTALL)
NAMED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}

OPENING, CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Call:
    """name is empty where the task has ended. at: seconds since the epoch, of the begin; took:
    seconds. result: what was returned, None for nothing or `?`. shown: the path that `-y` gives to
    a returned descriptor."""

    task: int
    at: float
    took: float
    name: str
    arguments: tuple[str, ...] = ()
    result: int | None = None
    shown: str = ""

    @property
    def ended(self) -> bool:
        return not self.name


@dataclass(frozen=True)
class PendingCall:
    """The first half of a call: its thread is known from here on."""

    task: int
    at: float
    name: str


@dataclass(frozen=True)
class Descriptor:
    """An argument that is a descriptor. number: None for AT_FDCWD."""

    number: int | None
    path: str

    @classmethod
    def of(cls, argument: str) -> Descriptor:
        """Raises ValueError for what is none."""
        found = DESCRIPTOR.match(argument)
        if found is None:
            raise ValueError(f"no descriptor: {argument}")
        number = found["number"]
        return cls(None if number == "AT_FDCWD" else int(number), unescaped(found["path"] or ""))


def calls(lines: Iterable[str]) -> Iterator[Call | PendingCall]:
    """Calls and first halves of calls, in the order of the lines. Raises ValueError for a line that
    strace does not write."""
    halves: dict[int, tuple[float, str]] = {}
    for line in lines:
        parts = LINE.match(line.rstrip("\n"))
        if parts is None:
            raise ValueError(f"no line of strace: {line!r}")
        task, at, what = int(parts["task"]), float(parts["at"]), parts["what"]
        if what.startswith(("---", "+++")):
            if ENDED.match(what):
                yield Call(task, at, 0.0, "")
            continue
        if what.endswith(UNFINISHED):
            halves[task] = at, what.removesuffix(UNFINISHED)
            yield PendingCall(task, at, what.partition("(")[0])
            continue
        resumed = RESUMED.match(what)
        if resumed is not None:
            if task not in halves:
                raise ValueError(f"the second half of a call without a first: {line!r}")
            at, first = halves.pop(task)
            what = first + resumed["rest"]
        yield _call(task, at, what)


def _call(task: int, at: float, what: str) -> Call:
    opened = CALL.match(what)
    if opened is None:
        raise ValueError(f"no call: {what!r}")
    arguments, end = _arguments(opened["rest"])
    returned = RETURNED.match(opened["rest"][end:])
    if returned is None:
        raise ValueError(f"a call without a return: {what!r}")
    result = None if returned["value"] == "?" else int(returned["value"], 0)
    more = returned["more"]
    shown = unescaped(more[1:].rpartition(">")[0]) if more.startswith("<") else ""
    return Call(task, at, float(returned["took"] or 0), opened["name"], arguments, result, shown)


def _arguments(text: str) -> tuple[tuple[str, ...], int]:
    """The arguments of a call, and where its closing parenthesis is: what is in quotes, in brackets
    or is the path of a descriptor is not looked into."""
    found: list[str] = []
    begin = at = depth = 0
    while at < len(text):
        char = text[at]
        if char in {'"', "<"}:
            at = _closed(text, at)
        elif char in OPENING:
            depth += 1
        elif char in CLOSING and depth:
            depth -= 1
        elif not depth and char in {",", ")"}:
            if at > begin or char == ",":
                found.append(text[begin:at].strip())
            begin = at + 1
            if char == ")":
                return tuple(found), at
        at += 1
    raise ValueError(f"a call without an end: {text!r}")


def _closed(text: str, at: int) -> int:
    """Where the quote or the path that opens at `at` closes. A `<` that closes nowhere, or is one
    of an operator (`<<`), is a character like any other."""
    if text[at] == "<":
        if text.startswith("<<", at):
            return at + 1
        end = text.find(">", at)
        return end if end > 0 else at
    at += 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at


def unquoted(argument: str) -> str:
    """The text of an argument in quotes. Raises ValueError for others, NULL among them."""
    if len(argument) < 2 or argument[0] != '"' or argument[-1] != '"':
        raise ValueError(f"no text in quotes: {argument}")
    return unescaped(argument[1:-1])


def unescaped(text: str) -> str:
    """What strace's escapes stand for; bytes that are no UTF-8 are kept as surrogates."""
    if "\\" not in text:
        return text

    def one(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] in "01234567":
            return chr(int(code, 8))
        if code[0] == "x":
            return chr(int(code[1:], 16))
        return NAMED.get(code, code)

    raw = ESCAPE.sub(one, text)
    return raw.encode("latin-1", "surrogateescape").decode("utf-8", "surrogateescape")


__all__ = ["Call", "Descriptor", "PendingCall", "calls", "unescaped", "unquoted"]
