# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home forget`: take names away, of volumes and of services' checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from chunkstore import Catalog, NameNotFound
from console import json_option, show
from homeserver.cli.context import Context
from homeserver.cli.prune import prune
from homeserver.retention import forget_volumes, judge_volumes, require_known
from satchel.retention import RetentionPolicy

RULES = {
    "last": "the newest N",
    "hourly": "the newest of each hour, for N hours that have one",
    "daily": "the newest of each day, for N days that have one",
    "weekly": "the newest of each week, for N weeks that have one",
    "monthly": "the newest of each month, for N months that have one",
    "yearly": "the newest of each year, for N years that have one",
}
COLUMNS = ("kind", "name", "version", "created", "kept")


def _keep_options(command: Any) -> Any:
    for rule, text in reversed(RULES.items()):
        option = click.option(f"--keep-{rule}", rule, type=int, metavar="N", help=f"Keep {text}.")
        command = option(command)
    return command


@click.command("forget")
@click.argument("names", nargs=-1)
@_keep_options
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten.")
@click.option("--prune", "pruned", is_flag=True, help="Then remove the chunks that nothing needs.")
@json_option
@click.pass_obj
def command(
    context: Context,
    /,
    names: tuple[str, ...],
    dry_run: bool,
    pruned: bool,
    as_json: bool,
    **rules: int | None,
) -> None:
    """Forget old versions of volumes and old checkpoints.

    The --keep options say what stays, as in restic; N = -1 keeps all. NAMES are volumes and
    services; without them it looks at all. Each volume and each service is counted by itself. The
    newest checkpoint of each service always stays. Without --keep options it forgets the volumes
    NAMES, or versions NAME@VERSION, and other checkpoints of services NAMES. The chunks stay until
    `prune`.
    """
    given = {rule: number for rule, number in rules.items() if number is not None}
    rows = _forget(context, names, RetentionPolicy(**given) if given else None, dry_run=dry_run)
    answer: dict[str, Any] = {
        "forgotten": [row for row in rows if not row["kept"]],
        "kept": [row for row in rows if row["kept"]],
    }
    if not as_json:
        show(rows, as_json=False, columns=COLUMNS, empty="there is nothing of which to forget any")
    if pruned and not dry_run:
        answer["pruned"] = prune(context, dry_run=False, quiet=as_json)
    show(answer if as_json else answer.get("pruned", []), as_json=as_json)


def _forget(
    context: Context, names: Sequence[str], policy: RetentionPolicy | None, *, dry_run: bool
) -> list[dict[str, Any]]:
    if context.serves_store:
        rules = asdict(policy) if policy else {}
        body = {"names": list(names), "policy": rules, "dry_run": dry_run}
        return list(context.daemon().post_json("/v1/forget", body))
    if policy is None:
        try:
            with context.open_store_to_read() as store:  # names lie beside what the store has open
                verdicts = forget_volumes(Catalog(store), names, dry_run=dry_run)
                return [asdict(verdict) for verdict in verdicts]
        except NameNotFound:
            if not context.has_home:
                raise
    if context.has_home:
        with context.home() as home:
            return [asdict(v) for v in home.forget(names, policy, dry_run=dry_run)]
    assert policy is not None
    with context.open_store_to_read() as store:
        catalog = Catalog(store)
        require_known(names, {entry.name for entry in catalog.versions()})
        return [asdict(v) for v in judge_volumes(catalog, names, policy, dry_run=dry_run)]
