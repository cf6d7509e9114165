# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's answer to an open makes of a file at a node."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from shares.node.content.access import Need, OpenFile
from shares.node.content.copies import Copies
from shares.node.content.known_files import KnownFiles
from shares.node.content.requests import Requests
from shares.node.content.sending import Sender
from shares.node.extent import Extent
from shares.node.hub.hub import Hub, Opened
from shares.node.journal.journal import Journal
from shares.node.operations import Attributes
from shares.protocol import ATTRIBUTES, BLOCK, POLICIES, DelayedUpdate, FileId, NodeMachine, Policy

log = logging.getLogger(__name__)

AHEAD_OF_OPEN = 16
"""Blocks that are asked for together with an open to read, at most."""


class Admission:
    """Of one node. Thread-safe."""

    def __init__(
        self,
        machine: NodeMachine,
        sender: Sender,
        copies: Copies,
        files: KnownFiles,
        requests: Requests,
        journal: Journal | None,
    ) -> None:
        self._machine, self._sender, self._copies = machine, sender, copies
        self._files, self._requests, self._journal = files, requests, journal
        self._changed = sender.changed
        self._policies: dict[str, Policy] = {}

    @contextmanager
    def opening(self, file: FileId | None = None) -> Iterator[None]:
        """Within this home is asked to open files, and `opened` is called. file: where it is known,
        the one; nobody else opens it meanwhile."""
        with self._changed:
            self._machine.opening()
        try:
            yield
        finally:
            with self._changed:
                self._machine.opening_over()
                self._files.unexpect(file)

    def ask_ahead(self, file: FileId, remembered: Attributes, hub: Hub) -> None:
        """Within `opening`, before `hub` is asked to open the file to read: ask for the beginning
        of its content, so that a program which opens and reads waits once. What comes are copies
        as all others: home counts them and calls them back, also before the file is open.

        remembered: what home said of the file's attributes and has not called back, so no other
        node has it open to write. Nothing is asked for that is here, or on its way."""
        with self._changed:
            blocks = -(-remembered.size // BLOCK)
            count = min(blocks, AHEAD_OF_OPEN, self._copies.ahead_limit())
            if hub is not self._sender.hub or count == 0:
                return
            if file not in self._files:
                self._expect(file, Extent.of(remembered))
            self._requests.ask(self._files[file], Need(0, count, writes=False))

    def expect_cut(self, file: FileId) -> None:
        """Within `opening`, before home is asked to make the file empty and open it: what home
        gives of it comes ahead of the answer."""
        with self._changed:
            if file not in self._files:
                self._expect(file, Extent(0, 0, 0, 0))

    def _expect(self, file: FileId, extent: Extent) -> None:
        self._files[file] = OpenFile(file, None, extent, "off")
        self._files.expected.add(file)
        self._machine.expect(file, self._policy(DelayedUpdate.name))

    def unasked(self, file: FileId) -> bool:
        """Home has not opened the file: wait until it has answered what was asked ahead. Whether it
        counts this node among who has copies, and is to be told that it closes the file."""
        if file not in self._files.expected:
            return False
        with suppress(OSError):
            self._sender.wait_until(
                lambda: self._files.under_way[file] <= 0 or not self._sender.connected
            )
        return self._files.under_way[file] <= 0

    def opened(self, file: FileId, opened: Opened, hub: Hub) -> OpenFile:
        """Home has opened the file for this node; again, where it is open already. Calls are
        answered on another thread than messages, which may have overtaken this answer. hub: who
        gave it; one of an earlier membership says nothing any more of whose the file is."""
        with self._changed:
            if hub is not self._sender.hub:
                opened = replace(opened, native=False, grant=0)
            known, expected = self._files.get(file), file in self._files.expected
            self._files.expected.discard(file)
            if known is not None:
                self._copies.take_back_all(known)
            overtaken = self._machine.overtaken(file, opened.native, opened.grant)
            native = opened.native and not overtaken
            policy = self._policy(opened.policy)
            self._files.policies[file] = policy.name
            about = (opened.native, opened.relaxation, opened.grant)
            comes, extent = self._machine.open(file, policy, *about), Extent.of(opened.attributes)
            if known is None:
                known = OpenFile(file, opened.attributes, extent, opened.log)
                self._files[file] = known
            elif comes or (expected and not self._machine.block(file, ATTRIBUTES).valid):
                known.extent = extent
            known.extent_came = native or known.extent_came
            known.attributes, known.log = opened.attributes, opened.log
            known.kept = known.closed = False
            if self._journal is not None:
                self._journal.opened(file, Extent.of(opened.attributes))
            return known

    def make(self, file: FileId, attributes: Attributes) -> OpenFile:
        """This node has made the file, and no other one knows of it: it is native. `made` or
        `refuse` follows when home has answered; it is not closed before."""
        with self._changed:
            self._machine.make(file, self._policy(DelayedUpdate.name))
            made = OpenFile(file, attributes, Extent.of(attributes), "async", extent_came=True)
            self._files[file] = made
            return made

    def made(self, file: FileId, opened: Opened, hub: Hub) -> OpenFile:
        """Home has made it too, and opened it for this node."""
        with self._changed:
            kept = self._files[file].kept
            self._machine.made(file, opened.grant)
            if self._journal is not None:
                self._journal.made(file, opened.grant)
            known = self.opened(file, opened, hub)
            if kept:
                known.kept = True
                self._machine.keep(file, True)
            return known

    def made_before(self, file: FileId, grant: int) -> None:
        """Home has made it, in this membership or in one before, and goes by this grant."""
        with self._changed:
            self._machine.made(file, grant)
            if self._journal is not None:
                self._journal.made(file, grant)

    def refuse(self, file: FileId, why: OSError) -> None:
        """Home has not made it: nothing is to be had of it any more. Every access raises why."""
        with self._changed:
            known = self._files.get(file)
            if known is None:
                return
            self._copies.take_back_all(known)
            if self._journal is not None:
                here = [n for n in self._machine.numbers(file) if self._files.written(file, n)]
                self._journal.unmade(file, {n: self._files.block(file, n) for n in here})
            known.refused, known.complete, known.extent_came = why, False, False
            self._machine.forget(file)
            for access in known.waiting:
                access.error = why
            self._changed.notify_all()

    def _policy(self, name: str) -> Policy:
        if name not in POLICIES:
            log.warning("home's policy %s is not known here", name)
        return self._policies.setdefault(name, POLICIES.get(name, DelayedUpdate)())

    @contextmanager
    def policies(self) -> Iterator[dict[str, Policy]]:
        """Those that decide here, by name; within this they are asked nothing. One that is put in
        before files are opened takes the place of a new one."""
        with self._changed:
            yield self._policies
