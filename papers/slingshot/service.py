# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One service of the paper on a testbed: responses, moves with and without media, eager transfers.

An eager transfer is the best that one could do: all of the compressed state over one plain TCP
connection, without SSH, into a surrogate that then resumes from its own disk and replays. Both are
measured; where the link would take longer than there is patience, a prefix of the state is sent,
and the figure's name says that the time is the bytes over the rate of that prefix
(papers.slingshot.transfers).
"""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import Figure, figure, move
from papers.slingshot.storage import Checkpoints
from papers.slingshot.transfers import EagerTransfers
from testbed import plot, story

HOME_ONLY = "home only"
EAGER = "after an eager transfer"

THINK_SECONDS = 900.0
"""How long a person thinks at most until home's checkpoint is on the stick."""

FIRST_RESPONSE_GOALS = {"desktop": 6.0}
"""Seconds, over any links, after any number of operations."""

SOONER_GOAL = 0.05
TIMES_GOAL = 20.0


@dataclass(frozen=True)
class PaperFigures:
    """What the paper has for a service. Seconds until the new surrogate answers, with and without
    portable storage; the part of the response time that a nearby replica saves; bytes of the disk
    and of the chunks that were fetched of it."""

    figure: str
    with_media: float
    without_media: float
    saved: float
    disk_bytes: float
    fetched_bytes: float


PUBLISHED = {
    "speech": PaperFigures("Figure 4", 3 * 60 + 7, 26 * 60 + 30, 0.48, 2e9, 6e6),
    "desktop": PaperFigures("Figure 5", 7 * 60 + 20, 30 * 60 + 40, 0.35, 1.5e9, 8e6),
}

BREAK_EVEN = 210
"""Iterations of the desktop, the paper's estimate."""

OVERLAP_SAVED = 0.33
"""Of the storage, by what the services have in common."""


@dataclass(frozen=True)
class ResumeTimings:
    """A replica that came up from the stick: seconds until it answered, but for its replay, and
    those that it took for each operation that it executed again."""

    alone: float
    each: float


class Evaluation:
    """One service, whose checkpoint is on the story's stick. Each stage yields its figures."""

    def __init__(self, play: story.Story, service: str, operations: int) -> None:
        self.play = play
        self.service = service
        self.operations = operations
        self.published = PUBLISHED[service]
        self.profile = play.bed.topology.profile
        self.label = f"{service}, links of {self.profile.name}"
        self.with_media: story.Move | None = None
        self._resumed: ResumeTimings | None = None
        self._eager_alone = 0.0
        self._rows_before = 0
        self._operations_each = 1.0
        self._begun = False

    def move_with_media(self) -> Iterator[Figure]:
        """Responses with home alone; a replica at hotspot A; then to B, from the stick, and
        responses there."""
        play, service, count = self.play, self.service, self.operations
        self._begin()
        play.operate(service, count, "a", HOME_ONLY)
        self._join_a()
        play.operate(service, count, "a", story.WITH)
        yield from self._think()
        play.move(service, "b", story.WITH)
        play.operate(service, count, "b", story.WITH)
        home, near = self._median(HOME_ONLY), self._median(story.WITH)
        yield figure(f"{self.label}: response, home only", home, "s")
        against = ("home only", home)
        goal = 1 - self.published.saved
        what = f"{self.label}: response, replica nearby"
        yield figure(what, near, "s", against=against, at_most=goal)
        paper = ("the paper", self.published.saved)
        yield figure(f"{self.label}: response time saved", 1 - near / home, "1", against=paper)
        made = self.with_media = play.moves[-1]
        paper = ("the paper", self.published.with_media)
        what = f"{self.label}: first response with media"
        yield move.first_response(what, made, self.profile, paper)
        if goal_seconds := FIRST_RESPONSE_GOALS.get(service):
            seconds = made.first_response_seconds
            yield figure(f"{what}, its goal", seconds, "s", at_most=goal_seconds)
        if made.replayed:
            self._resumed = ResumeTimings(_alone(made), _replay(made) / made.replayed)
        what = f"{self.label}: of that, replay of {made.replayed} operations"
        yield figure(what, _replay(made), "s", against=("all of it", made.first_response_seconds))
        fetched = sum(made.fetched.values())
        paper = ("the paper's chunks of the disk", self.published.fetched_bytes / 1e6)
        what = f"{self.label}: fetched before the first response, memory included"
        yield figure(what, fetched / 1e6, "MB", against=paper)
        yield figure(f"{self.label}: that of the stored state", made.share, "1")

    def eager(self, checkpoints: Checkpoints) -> Iterator[Figure]:
        """The same without any laziness. After `move_with_media`, whose replay stands for that of
        the eager transfer: the log has grown since."""
        assert self.with_media is not None
        self._return_to_a(checkpoints)
        self.play.move(self.service, "b", EAGER)
        made = self.play.moves[-1]
        self._eager_alone = _alone(made)
        resumed = self._eager_alone + _replay(self.with_media)
        yield figure(f"{self.label}: first response, all of the state there", resumed, "s")

    def transfers(self, checkpoints: Checkpoints, sent: EagerTransfers) -> Iterator[Figure]:
        """What an eager transfer adds, and the paper's way without media: a new checkpoint, so
        nothing is replayed. After `eager`; waits until all is sent."""
        assert self.with_media is not None
        first = self.with_media.first_response_seconds
        resumed = self._eager_alone + _replay(self.with_media)
        near, far = sent.near.result(), sent.far.result()
        name = f"eager transfer of {near.size / 1e6:.0f} MB over the Wi-Fi, {near.how}, then replay"
        yield figure(
            f"{self.label}: first response with media, by that of an eager transfer",
            first,
            "s",
            against=(name, near.seconds + resumed),
            at_most=SOONER_GOAL,
        )
        name = f"the same from home, {far.how}"
        what = f"{self.label}: first response with media, by that of one from home"
        yield figure(what, first, "s", against=(name, far.seconds + resumed))
        volatile = checkpoints.volatile(self.service).compressed
        seconds = far.seconds * volatile / far.size + self._eager_alone
        paper = ("the paper", self.published.without_media)
        what = f"{self.label}: first response without media, the paper's way"
        how = f"{volatile / 1e6:.0f} MB of memory, {far.how}; the disk for nothing, no replay"
        yield figure(f"{what} ({how})", seconds, "s", against=paper)
        mine = ("with media", first)
        yield figure(f"{what}, by that with media", seconds, "s", against=mine, at_least=TIMES_GOAL)
        yield from self._break_even("the paper's way without media", seconds)

    def move_without_media(self) -> Iterator[Figure]:
        """To hotspot B with nothing there, from home, as Satchel does it: what is touched. Where
        `move_with_media` was left out, the break-even is told from the replica at A."""
        play = self.play
        self._return_to_a(None)
        if self.with_media is None:
            play.operate(self.service, self.operations, "a", HOME_ONLY)
        brought = self._join_a()
        if self._resumed is None and brought["replayed"]:
            replay = brought["replay_seconds"]
            alone = brought["seconds"] - replay
            self._resumed = ResumeTimings(alone, replay / brought["replayed"])
        play.operate(self.service, self.operations, "a", story.WITHOUT)
        play.move(self.service, "b", story.WITHOUT)
        play.operate(self.service, self.operations, "b", story.WITHOUT)
        made = play.moves[-1]
        paper = ("the paper", self.published.without_media)
        what = f"{self.label}: first response without media, what is touched from home"
        yield move.first_response(what, made, self.profile, paper)
        if made.replayed:
            yield figure(f"{self.label}: the same without replay", _alone(made), "s")
            yield from self._break_even("what is touched from home", _alone(made))

    def planned_break_even(self) -> Iterator[Figure]:
        """By `satchel plan`, which has learnt from the moves. While the session is on."""
        plan = self.play.roles.satchel("plan", self.service, "--at", "a", "--json")["plans"][0]
        if plan["break_even_operations"]:
            count = plan["break_even_operations"] / self._per_iteration()
            paper = ("the paper's estimate", float(BREAK_EVEN))
            what = f"{self.label}: break-even, by `satchel plan`"
            yield figure(what, count, "iterations", against=paper)

    def draw(self) -> Path:
        """The paper's figure with what was measured: the CSV, and the picture beside it."""
        path = self.play.out / f"{self.published.figure} ({self.service}).csv"
        rows = self._rows()
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            for mode in (story.WITH, story.WITHOUT):
                series = [row for row in rows if row["mode"] == mode]
                for number, row in enumerate(series, 1):
                    table.writerow(row | {"iteration": str(number)})
        picture = path.with_suffix(".png")
        plot.response_times([path], picture)
        return picture

    def _break_even(self, instead: str, seconds: float) -> Iterator[Figure]:
        """After how many iterations media and replay take as long as a new checkpoint from home
        that takes so many seconds."""
        if self._resumed is None:
            return
        each = self._resumed.each * self._per_iteration()
        what = f"{self.label}: break-even with a new checkpoint, {instead}"
        paper = ("the paper's estimate", float(BREAK_EVEN))
        yield figure(what, (seconds - self._resumed.alone) / each, "iterations", against=paper)

    def _per_iteration(self) -> float:
        """Operations of an iteration, of all of this session or the last; nothing is under way."""
        if self._begun:
            answered: int = self._status()["answered"]
            self._operations_each = answered / (len(self._rows()) - self._rows_before)
        return self._operations_each

    def _think(self) -> Iterator[Figure]:
        """A pause, until the stick has all that was done, or of THINK_SECONDS: how long that takes
        and how much comes. Of a service that keeps no state nothing comes."""
        began = time.monotonic()
        status = self._status()
        if not status["stateful"]:
            return
        done, since = status["last_operation"], status["checkpoint_operation"]
        while status["checkpoint_operation"] < done and time.monotonic() - began < THINK_SECONDS:
            time.sleep(0.5)
            status = self._status()
        pause, came = time.monotonic() - began, status["refreshed"]
        what = f"{self.label}: pause until the stick has {done - since} operations"
        yield figure(what, pause, "s", bound=("the patience", THINK_SECONDS))
        lacking = float(done - status["checkpoint_operation"])
        yield figure(f"{self.label}: operations that it lacks then", lacking, "1", at_most=0)
        what = f"{self.label}: written to it meanwhile, {came['checkpoints']} checkpoints"
        yield figure(what, came["bytes"] / 1e6, "MB")

    def _status(self) -> dict[str, Any]:
        return dict(self.play.roles.satchel("status", self.service, "--json"))

    def end(self) -> None:
        """The session is over, and the client at hotspot A again."""
        if self._begun:
            self._per_iteration()
            self.play.stop(self.service)
            self.play.walk("a")
        self._begun = False

    def _begin(self) -> None:
        self._rows_before = len(self._rows())
        self.play.begin(self.service, media=True)
        self._begun = True

    def _join_a(self) -> dict[str, Any]:
        """Have a replica at surrogate A; what that took."""
        argv = ("move", self.service, "--to", "a", "--route", "replay", "--json")
        return dict(self.play.roles.satchel(*argv))

    def _return_to_a(self, checkpoints: Checkpoints | None) -> None:
        """A new session at hotspot A, with home alone; surrogate B is empty but for what it is
        given."""
        play = self.play
        self.end()
        play.roles.empty_surrogate("b")
        if checkpoints:
            data = play.roles.surrogates["b"].folder / "data"
            checkpoints.give(self.service, data / "store")
        play.roles.restart_surrogate("b", empty=False)
        self._begin()

    def _rows(self) -> list[dict[str, str]]:
        path = self.play.out / f"{self.service}.csv"
        if not path.exists():
            return []
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    def _median(self, mode: str) -> float:
        """Of the last operations of a mode."""
        rows = [row for row in self._rows() if row["mode"] == mode][-self.operations :]
        return statistics.median(float(row["seconds"]) for row in rows)


def _replay(made: story.Move) -> float:
    return made.joined_seconds - made.running_seconds


def _alone(made: story.Move) -> float:
    """Seconds until the first response, but for the replay."""
    return made.first_response_seconds - _replay(made)
