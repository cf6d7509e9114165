# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A person's use of a service, for measuring: an unmodified HTTP client of the local port.

    python -m testbed.workload notes|speech --url URL --count N --csv FILE [...]

One line per operation goes to the CSV at once, so that a run that is cut off leaves what it saw.
With --until FILE it goes on until that file exists.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import httpx

COLUMNS = ("iteration", "operation", "seconds", "leader", "mode", "clock")


@dataclass(frozen=True)
class Request:
    """One thing that the person does."""

    operation: str
    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"


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


@click.command()
@click.argument("service", type=click.Choice(["notes", "speech"]))
@click.option("--url", required=True, help="The local port of the session.")
@click.option("--count", type=int, default=30, help="Operations; with --until, at least so many.")
@click.option("--start", type=int, default=0, help="Iterations that were done before.")
@click.option("--mode", default="", help="What the CSV's mode column says.")
@click.option("--csv", "path", type=click.Path(path_type=Path), required=True)
@click.option("--recording", "recordings", type=click.Path(path_type=Path), multiple=True)
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
    think: float,
    until: Path | None,
) -> None:
    """Use SERVICE through URL and write down how long each operation took."""
    requests = notes(start) if service == "notes" else speech(list(recordings))
    new = not path.exists()
    with path.open("a", newline="") as file, httpx.Client(base_url=url, timeout=None) as http:
        table = csv.writer(file)
        if new:
            table.writerow(COLUMNS)
        done = 0
        while done < count or (until is not None and not until.exists()):
            request = next(requests)
            began = time.monotonic()
            answer = http.request(
                request.method,
                request.path,
                content=request.body,
                headers={"Content-Type": request.content_type},
            )
            seconds = time.monotonic() - began
            answer.raise_for_status()
            done += 1
            leader = answer.headers["X-Satchel-Leader"]
            row = (start + done, request.operation, f"{seconds:.4f}", leader, mode)
            table.writerow((*row, f"{time.time():.3f}"))
            file.flush()
            time.sleep(think)
    print(done, file=sys.stdout)


if __name__ == "__main__":
    main()
