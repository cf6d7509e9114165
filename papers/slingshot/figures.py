# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The evaluation of Slingshot's portable storage (Su, Flinn), rebuilt: papers/slingshot/README.md.

Everything is real: namespaces, emulated links, sshd, home, two surrogates, the client, a stick, the
guests. Links are those of the paper, with --quick those of today and fewer operations. What is
compared with "the paper" is its own number, of its machines and its services. The pictures of
Figures 4 and 5 go to bench-out/slingshot/PROFILE. Needs root.
"""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from bench import Figure, figure, processors
from papers.slingshot.plan import plan_figures
from papers.slingshot.prediction import WORKLOADS, prediction_figures
from papers.slingshot.service import OVERLAP_SAVED, PUBLISHED, Evaluation
from papers.slingshot.storage import Checkpoints
from papers.slingshot.transfers import under_way
from testbed import PAPER, TODAY, LinkProfile, story

OUT = Path("bench-out") / "slingshot"

SERVICES = ("speech", "desktop")

MEDIA, WITHOUT = STAGES = ("media", "without")
"""What is evaluated of a service; the second one waits long for home's uplink."""

PLAN_ROUNDS = 2

MEGABYTE = 1e6


@dataclass(frozen=True)
class Scale:
    """How long an evaluation is. operations: of a service at each place, of which a move with the
    stick has three; patience: see `transfer`."""

    profile: LinkProfile
    operations: Mapping[str, int]
    patience: float


QUICK = Scale(TODAY, {"speech": 3, "desktop": 2}, 20.0)
USUAL = Scale(PAPER, {"speech": 10, "desktop": 4}, 180.0)
SERIES = Scale(PAPER, {"speech": 134, "desktop": 42}, 180.0)
"""Figure 4 has 400 iterations and Figure 5 has 125; nobody thinks between them here."""
WHOLE = replace(USUAL, patience=math.inf)
"""Every transfer is made whole."""
NIGHT = replace(SERIES, patience=math.inf)


def figures() -> Iterator[Figure]:
    yield from _services(SERVICES, STAGES, USUAL, quick=False)
    yield from _plan(quick=False)


def quick_figures() -> Iterator[Figure]:
    yield from _services(SERVICES, STAGES, USUAL, quick=True)
    yield from _plan(quick=True)


def _services(
    services: Sequence[str], stages: Sequence[str], scale: Scale, quick: bool
) -> Iterator[Figure]:
    if quick:
        scale = QUICK
    for name in services if MEDIA in stages else ():
        (OUT / scale.profile.name / f"{name}.csv").unlink(missing_ok=True)
    with _played(services, scale.profile) as play, _copied(play, services) as copy:
        sizes = {name: copy.whole(name).compressed for name in services if MEDIA in stages}
        with under_way(scale.profile, sizes, scale.patience) as sent:
            evaluations = {n: Evaluation(play, n, scale.operations[n]) for n in services}
            for each in evaluations.values():
                if MEDIA in stages:
                    yield from each.move_with_media()
                    yield from each.eager(copy)
                if WITHOUT in stages:
                    yield from each.move_without_media()
                    yield from each.planned_break_even()
                each.draw()
                each.end()
            yield from _storage_figures(copy)
            for name, eager in sent.items():
                yield from evaluations[name].transfers(copy, eager)


def _storage(quick: bool) -> Iterator[Figure]:
    """The checkpoints alone, no moves."""
    with _played(SERVICES, TODAY if quick else PAPER) as play, _copied(play, SERVICES) as copy:
        yield from _storage_figures(copy)


def _plan(quick: bool) -> Iterator[Figure]:
    """Over the links of today: over the paper's a checkpoint that comes from home takes minutes."""
    rounds = 1 if quick else PLAN_ROUNDS
    with _played((*story.SERVICES, "desktop"), TODAY) as play:
        yield from plan_figures(play, {**dict.fromkeys(story.SERVICES, rounds), "desktop": 1})


PARTS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    **{each: functools.partial(_services, (each,), STAGES, USUAL) for each in SERVICES},
    **{
        f"{each}.{stage}": functools.partial(_services, (each,), (stage,), USUAL)
        for each in SERVICES
        for stage in STAGES
    },
    **{f"{each}.whole": functools.partial(_services, (each,), STAGES, WHOLE) for each in SERVICES},
    "series": functools.partial(_services, SERVICES, (MEDIA,), SERIES),
    "night": functools.partial(_services, SERVICES, STAGES, NIGHT),
    "storage": _storage,
    "plan": _plan,
    "prediction": prediction_figures,
    **{f"prediction.{n}": functools.partial(prediction_figures, only=(n,)) for n in WORKLOADS},
}


@contextlib.contextmanager
def _played(services: Sequence[str], profile: LinkProfile) -> Iterator[story.Story]:
    """A story whose services run at home and are on the stick."""
    out = OUT.resolve() / profile.name
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="satchel-") as name:
        work = Path(name)
        with processors.apart(profile) as bed:
            play = story.Story(bed, work, out, Console(file=sys.stderr, width=150))
            try:
                play.build(services)
                play.roles.start()
                play.at_home(services)
                yield play
            except BaseException:
                shutil.copytree(work, out / "logs", ignore=_no_logs, dirs_exist_ok=True)
                raise
            finally:
                play.close()


def _no_logs(folder: str, names: list[str]) -> list[str]:
    return [n for n in names if not (Path(folder) / n).is_dir() and not n.endswith(".log")]


@contextlib.contextmanager
def _copied(play: story.Story, services: Sequence[str]) -> Iterator[Checkpoints]:
    with Checkpoints(play.stick.root, play.keys, services, play.work / "copy") as copy:
        yield copy


def _storage_figures(copy: Checkpoints) -> Iterator[Figure]:
    """Section 4.4's table."""
    for service in copy.manifests:
        parts = {"volatile": copy.volatile(service), "persistent": copy.persistent(service)}
        for what, state in parts.items():
            size = ("its size", state.size / MEGABYTE)
            paper = ("the paper's disk", PUBLISHED[service].disk_bytes / MEGABYTE)
            against = paper if what == "persistent" else None
            yield figure(f"{service}: {what} state", state.size / MEGABYTE, "MB", against=against)
            of_stick, stream = state.stored / MEGABYTE, state.compressed / MEGABYTE
            yield figure(f"{service}: {what} state on the stick", of_stick, "MB", against=size)
            name = f"{service}: {what} state as one compressed stream"
            yield figure(name, stream, "MB", against=size)
    if len(copy.manifests) > 1:
        for disks, what in ((True, "disks"), (False, "disks and memory")):
            alone, together = copy.overlap(disks=disks)
            paper = ("the paper", OVERLAP_SAVED)
            name = f"both services: saved by what their {what} have in common"
            yield figure(name, 1 - together / alone, "1", against=paper)
