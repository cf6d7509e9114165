# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Response time against iteration, with and without portable storage: one panel per service.

The picture is that of Figures 4 and 5 of Su and Flinn (Slingshot, MobiSys 2005): how long each
operation took, and from when on the new surrogate's answer was the first.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from satchel.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("iteration", "operation", "seconds", "leader", "mode")

HOME = "home"
"""The leader whose answers are drawn hollow; every other is a surrogate."""

COLOURS = ("#0b6e99", "#d1495b", "#6a994e", "#7b5ea7")
INK = "#333333"
GRID = "#e3e3e3"
DECADE = 10.0
ROOM = 1.6


@dataclass(frozen=True)
class Sample:
    """One operation: its place in the run, how long it took, and who answered first."""

    iteration: int
    seconds: float
    leader: str


def read_samples(path: Path) -> dict[str, list[Sample]]:
    """Samples by mode, sorted by iteration. Other columns than COLUMNS are ignored.

    Raises NotFoundError for a missing file and UsageError, naming the line, for a wrong one.
    """
    series: dict[str, list[Sample]] = {}
    try:
        file = path.open(newline="", encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no {path}") from error
    with file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                sample = Sample(int(row["iteration"]), float(row["seconds"]), row["leader"])
                series.setdefault(row["mode"], []).append(sample)
            except (KeyError, TypeError, ValueError) as error:
                raise UsageError(
                    f"{path}:{number} is not a sample",
                    why=repr(error),
                    fix=f"its columns are {', '.join(COLUMNS)}",
                ) from error
    return {
        mode: sorted(samples, key=lambda sample: sample.iteration)
        for mode, samples in series.items()
    }


def response_times(files: Sequence[Path], output: Path) -> None:
    """Draw one panel per CSV file, titled by its name, and write the PNG.

    Raises what read_samples raises, and UsageError where there is nothing to draw.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = {path.stem: read_samples(path) for path in files}
    if not drawn or not all(drawn.values()):
        raise UsageError(f"cannot draw {output}", why="no samples")
    figure = Figure(figsize=(9, 0.6 + 3.9 * len(drawn)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    modes = list(dict.fromkeys(mode for series in drawn.values() for mode in series))
    colours = {mode: COLOURS[place % len(COLOURS)] for place, mode in enumerate(modes)}
    for place, (title, series) in enumerate(drawn.items(), start=1):
        axes = figure.add_subplot(len(drawn), 1, place)
        _draw_panel(axes, title, series, colours)
    _draw_legend(figure, colours)
    figure.savefig(output)


def takeovers(samples: Sequence[Sample]) -> list[Sample]:
    """Where each surrogate answers first for the first time, the run's first leader left out."""
    seen = {HOME, *(sample.leader for sample in samples[:1])}
    found = []
    for sample in samples:
        if sample.leader not in seen:
            found.append(sample)
            seen.add(sample.leader)
    return found


def _draw_panel(
    axes: Axes, title: str, series: Mapping[str, Sequence[Sample]], colours: Mapping[str, str]
) -> None:
    for mode, samples in series.items():
        _draw_series(axes, mode, samples, colours[mode])
    _mark_takeovers(axes, series, colours)
    _dress(axes, title, [sample.seconds for samples in series.values() for sample in samples])


def _draw_legend(figure: Figure, colours: Mapping[str, str]) -> None:
    """For all panels: the modes above them, and below what the marks mean."""
    from matplotlib.lines import Line2D

    modes = [Line2D([], [], color=colour, label=mode) for mode, colour in colours.items()]
    marks = [
        Line2D([], [], linestyle="", marker="o", color=INK, markerfacecolor=fill, label=label)
        for fill, label in ((INK, "a surrogate answered first"), ("white", "home answered first"))
    ]
    figure.legend(
        handles=modes, loc="outside upper center", ncols=len(modes), frameon=False, fontsize=8
    )
    figure.legend(
        handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8
    )


def _draw_series(axes: Axes, mode: str, samples: Sequence[Sample], colour: str) -> None:
    iterations = [sample.iteration for sample in samples]
    seconds = [sample.seconds for sample in samples]
    axes.plot(iterations, seconds, color=colour, linewidth=1.3, alpha=0.75, label=mode)
    size = 26 if len(samples) <= 80 else 9
    fills = ["white" if sample.leader == HOME else colour for sample in samples]
    axes.scatter(iterations, seconds, s=size, c=fills, edgecolors=colour, linewidths=1.1, zorder=3)


def _mark_takeovers(
    axes: Axes, series: Mapping[str, Sequence[Sample]], colours: Mapping[str, str]
) -> None:
    """A line where a surrogate takes the lead; labels of one panel are on different heights."""
    height = 0.97
    last = max(sample.iteration for samples in series.values() for sample in samples)
    for mode, samples in series.items():
        for sample in takeovers(samples):
            axes.axvline(sample.iteration, color=colours[mode], linewidth=0.9, linestyle=":")
            late = sample.iteration > 0.8 * last
            axes.annotate(
                f"{sample.leader} first",
                (sample.iteration, height),
                xycoords=axes.get_xaxis_transform(),
                xytext=(-4 if late else 4, 0),
                textcoords="offset points",
                color=colours[mode],
                fontsize=8,
                va="top",
                ha="right" if late else "left",
            )
            height -= 0.07


def _dress(axes: Axes, title: str, seconds: Sequence[float]) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    low, high = min(seconds), max(seconds)
    if low > 0 and high / low > DECADE / 2:
        axes.set_yscale("log")
        axes.set_ylim(low / ROOM, high * ROOM * ROOM)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, high * ROOM)
    axes.set_title(title, loc="left", fontsize=11, color=INK, fontweight="bold")
    axes.set_xlabel("iteration", color=INK, fontsize=9)
    axes.set_ylabel("response time (s)", color=INK, fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.tick_params(colors=INK, labelsize=8)
    axes.grid(axis="y", which="major", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.margins(x=0.02)
