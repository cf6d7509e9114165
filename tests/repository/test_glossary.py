# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The glossary is a sorted table, and has the nouns of every public class."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from tests.repository import tree

BESIDE = {"bench", "papers", "testbed"}

FIELD = """
acceptor access address announcer answer boot buffer caller catalog cause change count coverage
credential difference duplex end engine entry fetcher file flag host identity intake key layout
level line listener lru maker message mount name notifier number operation plan policy port
prefetcher preview priority queue range rate readahead recorder refresher relay report request
response run runner semaphore server settings signer space start state stats status upstream version
view watch
"""
"""Nouns with the same sense in Satchel and elsewhere."""


def rows() -> list[tuple[str, str]]:
    table = tree.text(Path("docs/glossary.md")).split("|---|---|\n", 1)[1]
    return [(row[2:-2].split(" | ", 1)[0], row) for row in table.splitlines()]


def words() -> set[str]:
    return {word.lower() for name, _ in rows() for word in re.split(r", *", name)}


def test_the_glossary_is_a_sorted_table_with_each_word_once() -> None:
    assert tree.text(Path("docs/glossary.md")).count("| word | meaning |\n|---|---|\n") == 1
    names = [name.lower() for name, _ in rows()]
    assert len(names) > 100
    assert names == sorted(names)
    assert len(names) == len(set(names))
    assert [row for _, row in rows() if row.count(" | ") != 1] == []


def public_classes() -> Iterator[tuple[str, str]]:
    """Yield package and name of each class of a public face, without errors."""
    for package in set(tree.packages()) - BESIDE:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            kind = getattr(module, name)
            if inspect.isclass(kind) and not (name.isupper() or issubclass(kind, BaseException)):
                yield package, name


def test_the_nouns_of_public_classes_are_in_the_glossary() -> None:
    known = words() | set(FIELD.split())
    lacking = []
    for package, name in public_classes():
        parts = [part.lower() for part in re.findall(r"[A-Z][a-z0-9]+|[A-Z]+(?=[A-Z]|$)", name)]
        phrases = {" ".join(parts[start:]) for start in range(len(parts))}
        if not (phrases | {phrase.removesuffix("s") for phrase in phrases}) & known:
            lacking.append(f"{package}.{name}")
    assert lacking == []
