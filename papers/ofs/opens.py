# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who uses which files at the nodes of a replay, as `shares.node.node` does it.

- An open asks home, unless the node has the file open already, as far as it is opened to write; or
  makes it in a folder of its own (`made`).
- A file that its last program has closed rests: for 30 s, and with 127 others at most. What was
  written goes home behind the close.
- Who opens a file to read asks for its beginning just before, if no other node writes it.
- Without relaxation, a file that rests is closed when another node cuts it, or opens it where this
  one alone had it and had written it.

Other names are not modelled: a node is taken to remember the attributes that it is promised.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from functools import partial

from papers.ofs.machines import ACROSS, OTHER, Machines, Waiting
from papers.ofs.made import OwnFolders
from papers.ofs.plan import Step
from shares.node import AHEAD_OF_OPEN, IDLE_FILES, IDLE_SECONDS, WRITTEN_SECONDS
from shares.protocol import ATTRIBUTES, FileId, NodeId


@dataclass
class _Use:
    """One file's at one node. The words are those of `shares.node.opened` and `OpenFile`; busy: it
    is being opened or closed."""

    open: bool = False
    busy: bool = False
    handles: int = 0
    since: float = 0.0
    writes: bool = False
    leaves: bool = False
    kept: bool = False
    touched: bool = False


@dataclass
class Opens:
    machines: Machines
    folders: OwnFolders
    _uses: defaultdict[tuple[NodeId, FileId], _Use] = field(
        default_factory=lambda: defaultdict(_Use)
    )
    _resting: dict[NodeId, OrderedDict[FileId, None]] = field(
        default_factory=lambda: {node: OrderedDict() for node in ACROSS}
    )

    def wrote(self, node: NodeId, file: FileId) -> None:
        """Inside of the file: its time is to be another one."""
        self._uses[node, file].touched = True

    # Opening.

    def open(self, node: NodeId, step: Step, *, writes: bool) -> Waiting:
        """A program opens the file of its step. A cut to nothing is done with it."""
        use = self._uses[node, step.file]
        while use.busy:
            yield
        if not use.open or (writes and not use.writes):
            use.busy = True
            yield from self._ask(node, step, use, writes=writes)
            use.open, use.busy, use.writes = True, False, writes or use.writes
        use.handles += 1
        use.leaves = False
        self._resting[node].pop(step.file, None)
        if use.kept:
            use.kept = False
            self.machines.nodes[node].keep(step.file, False)
        self.machines.came(node, step.file)

    def _ask(self, node: NodeId, step: Step, use: _Use, *, writes: bool) -> Waiting:
        machine, file = self.machines.nodes[node], step.file
        if node == OTHER:
            for _ in self.folders.look(file, relaxed=self.machines.relaxation > 0):
                yield from self.machines.call_back(node, file)
        elif writes and self.folders.ahead(file, relaxed=self.machines.relaxation > 0):
            self.machines.make(node, file)
            use.kept = False
            return
        cut = step.cut == 0
        machine.opening()
        if cut and file not in machine.files():
            machine.expect(file, self.machines.policies[node])
        elif not (writes or use.open) and self._promised(node, file):
            self._ask_ahead(node, step)
        yield from self.machines.open(node, file, cut=cut, writes=writes)
        machine.opening_over()
        use.kept = False

    def _promised(self, node: NodeId, file: FileId) -> bool:
        """No other node has it open to write."""
        return not self._uses[ACROSS[node], file].writes

    def _ask_ahead(self, node: NodeId, step: Step) -> None:
        machine, file = self.machines.nodes[node], step.file
        count = min(step.size, AHEAD_OF_OPEN)
        if not count:
            return
        if file not in machine.files():
            machine.expect(file, self.machines.policies[node])
        for message in machine.to_read(file, 0, count, self.machines.clock.now):
            self.machines.ask_home(node, message)

    def cut(self, node: NodeId, file: FileId) -> None:
        """Home calls the other node back, which closes what nobody uses and what may not be old."""
        other = ACROSS[node]
        use = self._uses[other, file]
        if use.open and not use.handles and not self.machines.relaxation:
            use.leaves = True
            self._let_go(other, file)

    # Closing.

    def release(self, node: NodeId, file: FileId) -> None:
        """A program closes it, and waits for nothing."""
        use = self._uses[node, file]
        use.handles -= 1
        if use.handles:
            return
        use.since = self.machines.clock.now
        self._resting[node][file] = None
        if use.writes:
            self._go_on(node, file, self._settle(node, file, use))
        self._later(IDLE_SECONDS, node, file)
        if use.leaves:
            self._let_go(node, file)
        while len(self._resting[node]) > IDLE_FILES:
            self._let_go(node, next(iter(self._resting[node])))

    def _later(self, seconds: float, node: NodeId, file: FileId) -> None:
        since = self._uses[node, file].since

        def look() -> None:
            use = self._uses[node, file]
            if use.handles or not use.open or use.since != since:
                return
            if seconds == IDLE_SECONDS:
                self._let_go(node, file)
            elif use.writes:
                self._go_on(node, file, self._settle(node, file, use, written=True))

        self.machines.clock.at(self.machines.clock.now + seconds, look)

    def _settle(self, node: NodeId, file: FileId, use: _Use, *, written: bool = False) -> Waiting:
        """What was written goes home, its time with it. Then others may remember size and times:
        at once where the file is native, else when it was not written for a while."""
        yield from self._flush(node, file, use)
        if use.handles or not use.open:
            return
        machine = self.machines.nodes[node]
        native = machine.native(file)
        if native and not self.machines.relaxation:
            machine.keep(file, True)
            use.kept = True
        if native or written:
            use.writes = False
            self.machines.written(node, file)
        else:
            self._later(WRITTEN_SECONDS, node, file)

    def _flush(self, node: NodeId, file: FileId, use: _Use) -> Waiting:
        machine, machines = self.machines.nodes[node], self.machines
        while use.touched and not machine.writable(file, ATTRIBUTES, machines.clock.now):
            for message in machine.to_write(file, ATTRIBUTES, 1, range(0), machines.clock.now):
                machines.ask_home(node, message)
            yield
        if use.touched:
            machines.write(node, file, ATTRIBUTES, 1)
            use.touched = False
        for flush in machine.flush(file):
            machines.ask_home(node, flush, closes=True)

    def engaged(self, node: NodeId, file: FileId) -> None:
        """Another node opens what was this one's alone."""
        use, machine = self._uses[node, file], self.machines.nodes[node]
        if use.kept or (use.writes and not use.handles):
            use.leaves, use.kept = True, False
            self._let_go(node, file)
        elif not (use.open or use.busy or self._needed(node, file)):
            machine.forget(file)

    def _needed(self, node: NodeId, file: FileId) -> bool:
        machine = self.machines.nodes[node]
        return any(machine.needed(file, number) for number in machine.numbers(file))

    def _let_go(self, node: NodeId, file: FileId) -> None:
        self._resting[node].pop(file, None)
        # After what is being handled: it is another thread that closes.
        waiting = self._close(node, file)
        self.machines.clock.at(self.machines.clock.now, partial(self._go_on, node, file, waiting))

    def _close(self, node: NodeId, file: FileId) -> Waiting:
        use, machine = self._uses[node, file], self.machines.nodes[node]
        if use.handles or use.busy or not use.open:
            return
        use.busy = True
        yield from self._flush(node, file, use)
        while self.machines.pending[node, file]:
            yield
        if not machine.native(file):
            for release in machine.give_back(file):
                self.machines.ask_home(node, release)
        while self.machines.pending[node, file]:
            yield
        machine.close(file)
        self.machines.close(node, file)
        use.open = use.busy = use.writes = use.leaves = use.kept = False
        self.machines.came(node, file)

    def _go_on(self, node: NodeId, file: FileId, waiting: Waiting) -> None:
        self.machines.go_on(node, file, waiting)


__all__ = ["Opens"]
