# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Delayed update, write by write: fifteen writes and seven reads of one block by two nodes.

The public text of the paper names the sequence of its Figure 3, W1 to W15 and R1 to R7, and the
rules that it shows; the figure itself was not available to us. So this is a sequence of our own
with as many writes and reads, which passes through each rule: the first write to a shared block
invalidates the other copy, overwrites are counted, a read teaches the threshold, the content is
pushed when the counter reaches it, and a pattern that changes is learned anew, in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shares.protocol import DelayedUpdate, FileId, WriteInvalidate, WriteUpdate
from tests.shares.protocol.accesses import VALUE, Access
from tests.shares.protocol.simulated_home import SimHome
from tests.shares.protocol.simulated_node import SimNode
from tests.shares.protocol.world import World

FILE = FileId(1)


@dataclass
class Pair:
    """A writer and a reader, 10 ms from home each; messages go in both directions at once."""

    policy: type = DelayedUpdate
    world: World = field(default_factory=World)
    count: int = 0

    def __post_init__(self) -> None:
        self.home = SimHome(self.world)
        self.writer = SimNode(self.home, 1, lambda: 0.01, self.policy)
        self.reader = SimNode(self.home, 2, lambda: 0.01, self.policy)
        for node in (self.writer, self.reader):
            node.open(FILE)
        self.world.run()

    def access(self, node: SimNode, value: bytes | None) -> tuple[bytes | None, float]:
        """What was read, and the seconds that it took; then all that it made happen happens."""
        ended: list[float] = []
        began = self.world.now
        access = Access(FILE, [0], value, range(0), lambda _: ended.append(self.world.now), began)
        node.access(access)
        self.world.run()
        return access.values.get(0), ended[0] - began

    def write(self) -> str:
        """What the write did: "asked" home first, "pushed" after it, both, or was "local"."""
        self.count += 1
        before = self.messages()
        _, seconds = self.access(self.writer, str(self.count).encode().rjust(VALUE, b"."))
        pushed = self.messages()["Push"] > before.get("Push", 0)
        done = ["asked"] * (seconds > 0) + ["pushed"] * pushed
        return " and ".join(done) or "local"

    def read(self) -> str:
        """How the latest content was read: it was "here", or had to be asked for."""
        value, seconds = self.access(self.reader, None)
        assert value == str(self.count).encode().rjust(VALUE, b".")
        return "asked" if seconds else "here"

    def messages(self) -> dict[str, int]:
        found = self.home.messages
        return {name: found[name] for name in ("Push", "Invalidate", "Recall", "Update")}

    @property
    def block(self) -> tuple[int, int | None]:
        """Counter and threshold at the writer."""
        block = self.writer.machine.block(FILE, 0)
        return block.overwritten, block.threshold


def test_fifteen_writes_and_seven_reads() -> None:
    pair = Pair()
    # W1: the first write takes the block; nobody else has it, and nothing is known.
    assert pair.write() == "asked"
    assert pair.block == (0, None)
    # R1: the owner is asked, and learns that the content was used before any overwrite.
    assert pair.read() == "asked"
    assert pair.block == (0, 0)
    # W2: shared: the reader's copy is invalidated first. The counter is at the threshold: pushed.
    assert pair.write() == "asked and pushed"
    # R2: the content is here before it was asked for.
    assert pair.read() == "here"
    # W3 to W5: the pattern changes. W3 is pushed as before, which nobody reads; W4 finds that out.
    assert pair.write() == "asked and pushed"
    assert pair.write() == "asked"
    assert pair.block == (1, None)
    assert pair.write() == "local"
    # R3: the reader asks, and the threshold is what was counted: two overwrites.
    assert pair.read() == "asked"
    assert pair.block == (2, 2)
    # W6 to W8: invalidated before the first of them, counted, and pushed with the third.
    assert [pair.write() for _ in range(3)] == ["asked", "local", "pushed"]


def test_reads_and_writes_in_one_line() -> None:
    pair = Pair()
    steps = "WR WR WWWR WWWR WWWR WWR WWR".replace(" ", "")
    assert (steps.count("W"), steps.count("R")) == (15, 7)
    did = [pair.write() if step == "W" else pair.read() for step in steps]
    assert did[:4] == ["asked", "asked", "asked and pushed", "here"]
    # Three writes for a read: one push too early, then learned, then foreseen.
    assert did[4:8] == ["asked and pushed", "asked", "local", "asked"]
    assert did[8:12] == ["asked", "local", "pushed", "here"]
    assert did[12:16] == ["asked", "local", "pushed", "here"]
    # Two writes for a read: asked for before the counter came so far, then foreseen.
    assert did[16:19] == ["asked", "local", "asked"]
    assert pair.block == (1, 1)
    assert did[19:] == ["asked", "pushed", "here"]


def test_the_first_write_waits_until_the_copy_is_gone() -> None:
    pair = Pair()
    pair.write()
    pair.read()
    before = pair.messages()["Invalidate"]
    _, seconds = pair.access(pair.writer, b"x" * VALUE)
    assert pair.messages()["Invalidate"] == before + 1
    # To home, to the reader, and back.
    assert round(seconds, 6) == 0.04
    # The counter is at the threshold, so the reader has the new content before it asks.
    assert pair.access(pair.reader, None) == (b"x" * VALUE, 0.0)


def test_the_other_policies_on_the_same_line() -> None:
    steps = "WRWRWWWRWWWRWWWRWWRWWR"
    for policy, asked, pushes in ((WriteInvalidate, 7, 0), (WriteUpdate, 1, 14)):
        pair = Pair(policy)
        did = [pair.write() if step == "W" else pair.read() for step in steps]
        reads = [how for how, step in zip(did, steps, strict=True) if step == "R"]
        assert reads.count("asked") == asked
        assert pair.messages()["Push"] == pushes
