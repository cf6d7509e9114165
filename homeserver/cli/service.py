# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home service`: the services of this home."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from console import json_option, show
from homeserver.cli.context import Context
from satchel import settings
from satchel.errors import UsageError
from satchel.names import check_name

if TYPE_CHECKING:
    from homeserver.services.trial import TrialVerdict
    from images import Contract
    from wire import HttpClient

FOLLOW_SECONDS = 1.0
STATE = ("name", "image", "state", "accelerator", "checkpoint")
SERVED = (*STATE, "last_logged", "last_executed", "client")
COLUMNS = (*SERVED, "failure")


@click.group("service")
def command() -> None:
    """The services of this home."""


@command.command("add")
@click.argument("name")
@click.option("--image", help="A built image [default: the one of the same name].")
@click.option(
    "--accelerator",
    type=click.Choice(["auto", "kvm", "tcg"]),
    help="The accelerator at home; auto: KVM if it works, otherwise emulation (tcg) "
    "[default: from home.toml or the recipe].",
)
@click.option("--vcpus", type=int, help="Processors that it has [default: as above].")
@click.option("--memory-mib", type=int, help="Memory that it has [default: as above].")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="The same, as in a recipe: memory-mib=2048.",
)
@click.option(
    "--contract",
    type=click.Choice(["replay", "carry"]),
    help="How it is kept alike everywhere [default: what the recipe says, or a trial finds].",
)
@json_option
@click.pass_obj
def add(
    context: Context,
    name: str,
    image: str | None,
    accelerator: str | None,
    vcpus: int | None,
    memory_mib: int | None,
    changes: tuple[str, ...],
    contract: Contract | None,
    as_json: bool,
) -> None:
    """Add a service NAME of a built image. `launch` starts it.

    If the recipe does not say whether it is replayed or carried, a trial boots the image twice and
    compares the answers to the recipe's requests. The image keeps the result.

    Processors and memory stay as they are at its first boot. The accelerator may change each time
    that it continues from a checkpoint.
    """
    wish = {"accelerator": accelerator, "vcpus": vcpus, "memory_mib": memory_mib}
    machine = {key: value for key, value in wish.items() if value is not None}
    if changes:
        machine |= _changed(changes)
    daemon = context.daemon()
    found = _decide(context, check_name(image or name, "image"), contract, quiet=as_json)
    daemon.post_json("/v1/services", {"name": name, "image": image or name, "machine": machine})
    added = {"added": name, "contract": found.contract, "why": found.why}
    show({**added, "needs": list(found.needs)} if found.needs else added, as_json=as_json)


def _decide(
    context: Context, image: str, contract: Contract | None, *, quiet: bool
) -> TrialVerdict:
    from homeserver.cli.image import tried  # the other commands start without
    from homeserver.services.trial import decide
    from images import BuiltImage

    built = BuiltImage.load(context.settings.images / image)
    return decide(built, contract, lambda: tried(context, image, None, quiet=quiet))


def _changed(changes: Sequence[str]) -> dict[str, Any]:
    """What `--set` says of the machine. Raises SettingsError, MachineOptionsInvalid."""
    from homeserver.machine_options import ANYTHING  # the other commands get by without it

    wish = asdict(settings.changed(ANYTHING, changes, "--set"))
    named = {change.partition("=")[0].replace("-", "_") for change in changes}
    return {key: value for key, value in wish.items() if key in named}


@command.command("ls")
@json_option
@click.pass_obj
def ls(context: Context, as_json: bool) -> None:
    """List the services, with their state and operations."""
    rows = context.daemon().get_json("/v1/services")
    empty = "no service is here: `satchel-home service add NAME` adds one, of an image"
    show(rows, as_json=as_json, columns=COLUMNS, empty=empty)


@command.command("log")
@click.argument("name")
@click.option("--follow", is_flag=True, help="Show new output until Ctrl-C.")
@click.pass_obj
def log(context: Context, name: str, follow: bool) -> None:
    """Show the console of NAME's machine, or of the last one."""
    daemon, end = context.daemon(), 0
    while True:
        said = daemon.get_json(f"/v1/services/{name}/console?after={end}")
        end = int(said["end"])
        lines = str(said["text"]).splitlines(keepends=True)
        shown = "".join(c for line in lines for c in line if c.isprintable() or c in "\n\t")
        click.echo(shown, nl=False)
        if not follow:
            return
        time.sleep(FOLLOW_SECONDS)


@command.command("rm")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def rm(context: Context, name: str, yes: bool, as_json: bool) -> None:
    """Stop and forget a service, its checkpoints and its log."""
    daemon = context.daemon()
    if not yes:
        _confirm(daemon, name)
    daemon.delete(f"/v1/services/{name}")
    show({"removed": name}, as_json=as_json)


def _confirm(daemon: HttpClient, name: str) -> None:
    """Say what goes, and ask. Raises UsageError without a person to ask, click.Abort after a no."""
    status = daemon.get_json(f"/v1/services/{name}")
    dry = {"names": [name], "policy": {"last": -1}, "dry_run": True}
    rows = [row for row in daemon.post_json("/v1/forget", dry) if row["kind"] == "service"]
    goes = f"{len(rows)} checkpoints" + (f" since {rows[-1]['created']}" if rows else "")
    goes += f" and the log up to operation {status['last_logged']}"
    if not sys.stdin.isatty():
        raise UsageError(
            f"{name} is not removed without a word", why=f"its {goes} would go", fix="add --yes"
        )
    click.confirm(f"{name} goes for good, with its {goes}. Remove it?", abort=True, err=True)


@command.command("stop")
@click.argument("name")
@json_option
@click.pass_obj
def stop(context: Context, name: str, as_json: bool) -> None:
    """End the replica at home. The log keeps the operations since the last checkpoint."""
    show(context.daemon().post_json(f"/v1/services/{name}/stop", {}), as_json=as_json)
