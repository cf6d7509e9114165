# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Lives of a schedule: sources fail, fall silent, lack things, come back, and people change their
minds. Once every source is well again, all that is still waited for comes."""

import random
from collections.abc import Callable
from functools import partial

from satchel.ids import ChunkRef
from tests.surrogate.simulated import Link, World, ref
from wire import Priority

CHUNKS = 60
LIVES = 300

LOST_BEFORE = (40, 444, 553, 1287, 1477, 1686)
"""In these a want was lost, as a source on trial was asked in the place of one long given up."""

PATIENCE = 60.0
LOOK = 0.1
"""Those who wait look so often."""


class Life:
    """One of them: everything follows from the number."""

    def __init__(self, number: int) -> None:
        self.rng = random.Random(number)
        self.links = [
            Link(f"l{n}", self.rng.choice((0.001, 0.02, 0.3)), self.rng.choice((2e4, 2e5, 2e6)))
            for n in range(self.rng.randint(1, 4))
        ]
        self.world = World(*self.links)
        self.wanted: set[ChunkRef] = set()

    def left(self) -> list[ChunkRef]:
        """What is waited for."""
        return sorted(self.wanted - self.world.came.keys())

    def step(self) -> None:
        link = self.rng.choice(self.links)
        changes = (self.breaks, self.mutes, self.lacks, self.renews)
        of_link: list[Callable[[], None]] = [partial(change, link) for change in changes]
        weights = (40, 15, 10, 10, 10, 5)
        (happens,) = self.rng.choices((self.want, self.forget, *of_link), weights)
        happens()
        self.world.take()
        self.world.run(self.world.now + self.rng.choice((0.001, 0.05, 0.5, 3.0)))

    def want(self) -> None:
        chunks = {ref(self.rng.randrange(CHUNKS)) for _ in range(self.rng.randint(1, 30))}
        new = sorted(chunks - self.world.came.keys())
        links = self.rng.sample(self.links, self.rng.randint(1, len(self.links)))
        self.world.want(new, self.rng.choice(list(Priority)), links=links)
        self.wanted.update(new)

    def forget(self) -> None:
        left = self.left()
        for key in self.rng.sample(left, self.rng.randint(0, len(left))):
            self.world.schedule.forget(key)
            self.wanted.remove(key)

    def breaks(self, link: Link) -> None:
        link.broken = not link.broken

    def lacks(self, link: Link) -> None:
        some = (ref(self.rng.randrange(CHUNKS)) for _ in range(20))
        link.lacks = set() if link.lacks else set(some)

    def renews(self, link: Link) -> None:
        self.world.schedule.renewed(link.standing, self.world.now)

    def mutes(self, link: Link) -> None:
        """When it speaks again, what it was asked for before has failed."""
        link.mute = not link.mute
        if not link.mute:
            self.world.silence_ends(link)

    def heal(self) -> None:
        for link in self.links:
            link.broken, link.lacks = False, set()
            if link.mute:
                self.mutes(link)

    def wait(self) -> None:
        """Until all has come, or for PATIENCE."""
        end = self.world.now + PATIENCE
        while self.left() and self.world.now < end:
            self.world.take()
            self.world.run(self.world.now + LOOK)


def test_nothing_that_somebody_waits_for_is_lost() -> None:
    for number in (*LOST_BEFORE, *range(LIVES)):
        life = Life(number)
        for _ in range(life.rng.randint(5, 40)):
            life.step()
        life.heal()
        life.wait()
        assert life.left() == [], f"life {number}"
