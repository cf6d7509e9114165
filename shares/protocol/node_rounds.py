# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How an access of a program asks for blocks until it has all that it needs at one time.

In its first round it asks for what it lacks, each part as it becomes known. Other nodes may take a
part again before the next part comes. If the replies of the first round were not enough, the next
rounds ask for everything together:

1. for block -1. While it waits for the others it holds that one: it answers nobody who wants it.
2. for all other blocks, in one request, also those that are here. The access is done while the
   reply is handled.

So it ends after one such round. A node holds no block but -1, and takes that first: no two nodes
wait for each other. Home takes up requests for one block in the order in which they came, so each
has its turn. Home asks for -1 and others at the same time when it cuts a file: then the node lets
-1 go after a second, and the access has another round. From then on home takes -1 of that file
first.
"""

from __future__ import annotations

from dataclasses import dataclass

from shares.protocol.messages import ATTRIBUTES, Message


@dataclass(slots=True)
class Rounds:
    """The requests of one access, each about block -1 alone or about others. first, rest: how many
    of these are under way; answered: whether one was answered; together: whether the access asks
    for everything together"""

    first: int = 0
    rest: int = 0
    answered: bool = False
    together: bool = False

    def look(self) -> None:
        """Take up that the access is about to look at what it lacks."""
        self.together |= self.answered and not self.rest

    def may_ask(self, block: int) -> bool:
        """Return whether it may ask for blocks from this one on: after an answer, not before all
        of the round is answered."""
        return not (self.answered and (self.first if block == ATTRIBUTES else self.rest))

    def sent(self, request: Message) -> None:
        self._count(request, 1)

    def came(self, request: Message) -> None:
        """The request was answered."""
        self._count(request, -1)
        self.answered = True

    def failed(self, request: Message) -> None:
        """The request will not be answered."""
        self._count(request, -1)

    def reset(self) -> None:
        """No request is under way any more: the membership is over."""
        self.first = self.rest = 0

    def _count(self, request: Message, change: int) -> None:
        if request.first == ATTRIBUTES:
            self.first += change
        else:
            self.rest += change
