# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate warm`: the cache has what services share before the first guest comes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from console import bar, json_option, show
from satchel.ids import BLOCK_SIZE
from surrogate.cache.warming import files_of, pieces_of
from surrogate.cli.daemon import daemon
from surrogate.operator import credentials
from surrogate.settings import SurrogateSettings

RELEASES = {"debian-12": "bookworm", "debian-13": "trixie"}


@click.command("warm")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--package",
    "packages",
    multiple=True,
    help="Another Debian package, with its dependencies; repeatable.",
)
@json_option
@click.pass_obj
def command(
    settings: SurrogateSettings, sources: Sequence[str], packages: Sequence[str], as_json: bool
) -> None:
    """Bring what services share into the cache ahead of guests.

    SOURCE is debian-12 or debian-13, or a folder, a tar archive or any other file, such as a disk
    or a recogniser's model. Of a release it takes the packages that the shipped services share, and
    those that you name. It stops where the cache is full, and gives nothing else up.
    """
    told = {"blocks": 0, "new": 0}
    with daemon(settings) as surrogate, bar("warm", quiet=as_json) as progress:
        headers = credentials(settings.run) | {"Content-Type": "application/octet-stream"}
        for source in sources:
            with _made(source, packages) as path:
                for piece in pieces_of(files_of(path)):
                    answer = surrogate.request("POST", "/v1/cache", body=piece, headers=headers)
                    for name, count in json.loads(answer.body).items():
                        told[name] += count
                    progress(told["blocks"] * BLOCK_SIZE, 0)
    show(told, as_json=as_json)


@contextmanager
def _made(source: str, packages: Sequence[str]) -> Iterator[Path]:
    """The files of a release as a tar archive; anything else is a path."""
    if source not in RELEASES:
        yield Path(source)
        return
    from images import Recipe, release_files  # only a release needs Debian's programs

    with tempfile.TemporaryDirectory(prefix="satchel-warm-") as folder:
        archive = Path(folder, "files.tar")
        release_files(archive, RELEASES[source], [*Recipe.find("base").packages, *packages])
        yield archive
