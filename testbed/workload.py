# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A person's use of a service, for measuring: an unmodified HTTP client of the local port.

    python -m testbed.workload notes|speech|desktop --url URL --count N --csv FILE [...]

One line per operation goes to the CSV at once, so that a run that is cut off leaves what it saw.
With --until FILE it goes on until that file exists. An operation of `desktop` is an edit by an
unmodified viewer: it takes what the session took for all that the viewer sent, pauses not counted.
"""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx2

from testbed.desktop import edit
from wire import HttpClient

COLUMNS = ("iteration", "operation", "seconds", "leader", "mode", "clock")


@dataclass(frozen=True)
class Request:
    """One thing that the person does."""

    operation: str
    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"


@dataclass(frozen=True)
class TimedOperation:
    """An operation, how long it took, and whose answer was the first."""

    operation: str
    seconds: float
    leader: str


QUIET_SECONDS = 0.2
"""Between two looks that agree that a session has nothing to do."""


def notes(start: int) -> Iterator[Request]:
    """Add, edit, list and search notes; the same sequence at every run."""
    index = start
    while True:
        index += 1
        kind = index % 5
        if kind in (1, 3):
            text = (
                f"Note {index}: buy {index} apples and write to aunt Mary about page {index * 7}."
            )
            body = f'{{"title":"note {index}","text":"{text}"}}'.encode()
            yield Request("add", "POST", "/api/notes", body)
        elif kind == 2:
            body = f'{{"title":"edited {index}","text":"changed at {index}"}}'.encode()
            yield Request("edit", "PUT", "/api/notes/1", body)
        elif kind == 4:
            yield Request("search", "GET", "/api/notes?q=apples")
        else:
            yield Request("list", "GET", "/api/notes")


def speech(recordings: list[Path]) -> Iterator[Request]:
    """Have recordings recognised, one after the other, again and again."""
    while True:
        for path in recordings:
            yield Request("recognise", "POST", "/recognize", path.read_bytes(), "audio/wav")


def over_http(url: str, requests: Iterator[Request]) -> Iterator[TimedOperation]:
    """Send requests, one after the other."""
    with httpx2.Client(base_url=url, timeout=None) as http:
        for request in requests:
            began = time.monotonic()
            headers = {"Content-Type": request.content_type}
            answer = http.request(
                request.method, request.path, content=request.body, headers=headers
            )
            seconds = time.monotonic() - began
            answer.raise_for_status()
            yield TimedOperation(request.operation, seconds, answer.headers["X-Satchel-Leader"])


def edits(url: str, control: Path) -> Iterator[TimedOperation]:
    """Edit a document, again and again. An edit is several operations: the leader is who was the
    first to answer most of them."""
    with HttpClient(control, peer="the session") as session:
        while True:
            before = _idle(session)
            edit(int(url.rsplit(":", 1)[1]), think=0.0)
            after = _idle(session)
            seconds = after["answered_seconds"] - before["answered_seconds"]
            led = Counter(after["first_responses"])
            led.subtract(before["first_responses"])
            yield TimedOperation("edit", seconds, led.most_common(1)[0][0])


def _idle(session: HttpClient) -> dict[str, Any]:
    """The session's tally, once all that was sent to it is answered."""
    last = None
    while True:
        tally: dict[str, Any] = session.get_json("/v1/tally")
        if tally == last and not tally["under_way"]:
            return tally
        last = tally
        time.sleep(QUIET_SECONDS)


@click.command()
@click.argument("service", type=click.Choice(["notes", "speech", "desktop"]))
@click.option("--url", required=True, help="The local port of the session.")
@click.option("--count", type=int, default=30, help="Operations; with --until, at least so many.")
@click.option("--start", type=int, default=0, help="Iterations that were done before.")
@click.option("--mode", default="", help="What the CSV's mode column says.")
@click.option("--csv", "path", type=click.Path(path_type=Path), required=True)
@click.option("--recording", "recordings", type=click.Path(path_type=Path), multiple=True)
@click.option("--control", type=click.Path(path_type=Path), help="The session's socket.")
@click.option("--think", type=float, default=0.0, help="Seconds between operations.")
@click.option("--until", type=click.Path(path_type=Path), help="Go on until this file exists.")
def main(
    service: str,
    url: str,
    count: int,
    start: int,
    mode: str,
    path: Path,
    recordings: tuple[Path, ...],
    control: Path | None,
    think: float,
    until: Path | None,
) -> None:
    """Use SERVICE through URL and write down how long each operation took."""
    if service == "desktop":
        if control is None:
            raise click.UsageError("desktop needs --control")
        use = edits(url, control)
    else:
        use = over_http(url, notes(start) if service == "notes" else speech(list(recordings)))
    new = not path.exists()
    with path.open("a", newline="") as file:
        table = csv.writer(file)
        if new:
            table.writerow(COLUMNS)
        done = 0
        while done < count or (until is not None and not until.exists()):
            made = next(use)
            done += 1
            row = (start + done, made.operation, f"{made.seconds:.4f}", made.leader, mode)
            table.writerow((*row, f"{time.time():.3f}"))
            file.flush()
            time.sleep(think)
    print(done, file=sys.stdout)


if __name__ == "__main__":
    main()
