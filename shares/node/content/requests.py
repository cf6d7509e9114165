# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node asks home for, block by block, and what comes of it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

from satchel.errors import IntegrityError
from shares.node import clock
from shares.node.content.access import Need, OpenFile
from shares.node.content.copies import Copies
from shares.node.content.eviction import Eviction
from shares.node.content.known_files import KnownFiles
from shares.node.content.sending import Sender
from shares.node.hub.hub import Hub
from shares.protocol import Blocks, Fetch, FileId, Granted, Message, NodeMachine, Own


class Requests:
    """Of one node. `ask` is called with the content's lock held."""

    def __init__(
        self,
        machine: NodeMachine,
        sender: Sender,
        copies: Copies,
        files: KnownFiles,
        eviction: Eviction,
        go_on: Callable[[FileId], None],
    ) -> None:
        """go_on: has the accesses to a file look again"""
        self._machine, self._sender, self._copies = machine, sender, copies
        self._files, self._eviction, self._go_on = files, eviction, go_on

    def ask(self, file: OpenFile, need: Need) -> None:
        """For these blocks, as far as they are not here and not on their way."""
        now, name, hub = clock.now(), file.file, self._sender.hub
        asked: list[Fetch] | list[Fetch | Own] = (
            self._machine.to_write(name, need.first, need.count, need.whole, now)
            if need.writes
            else self._machine.to_read(name, need.first, need.count, now)
        )
        for message in asked:
            self._sender.count(message)
            self._files.under_way[name] += 1
            came = partial(self._came, hub, message, now)
            hub.post(message, came, partial(self._failed, hub, message))

    def _came(self, hub: Hub, request: Fetch | Own, sent: float, reply: Message) -> None:
        with self._sender.changed:
            if hub is not self._sender.hub:
                return
            self._sender.count(reply)
            self._files.under_way[request.file] -= 1
            file = self._files.get(request.file)
            if file is not None:
                self._copies.take_back(file, request.numbers, read=True)
            numbers: set[int] = set()
            try:
                if isinstance(request, Fetch) and isinstance(reply, Blocks):
                    numbers = set(self._machine.blocks(request, reply, sent))
                elif isinstance(request, Own) and isinstance(reply, Granted):
                    numbers = set(self._machine.granted(request, reply, clock.now()))
                else:
                    raise IntegrityError("home's reply does not fit", why=type(reply).__name__)
                self._files.put(reply, numbers)
            except (IntegrityError, ValueError) as error:
                self._lose(request, numbers, OSError(errno.EIO, str(error)))
            except OSError as error:  # this node's disk is full, say
                self._lose(request, numbers, error)
            self._go_on(request.file)
            empty = self._machine.unwritten(request)
            for message in empty:
                self._sender.send(message)
            if empty:
                self._go_on(request.file)  # others wait for what has content, or is to be asked for
            self._eviction.evict()

    def _lose(self, request: Fetch | Own, numbers: set[int], error: OSError) -> None:
        """The machine has these blocks, but their content is not to be had here."""
        self._machine.unstored(request, numbers)
        self._refuse(request, error)

    def _failed(self, hub: Hub, request: Fetch | Own, error: OSError) -> None:
        with self._sender.changed:
            if hub is not self._sender.hub:
                return  # of an earlier membership: it is asked again already
            self._files.under_way[request.file] -= 1
            self._refuse(request, error)

    def _refuse(self, request: Fetch | Own, error: OSError) -> None:
        self._machine.failed(request)
        file = self._files.get(request.file)
        if self._sender.connected:  # else it is asked again, as long as the accesses wait
            for access in file.waiting if file else []:
                access.error = error
        self._sender.changed.notify_all()
