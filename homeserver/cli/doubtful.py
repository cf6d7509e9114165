# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The option of all commands that take operations from a medium."""

from __future__ import annotations

import click

from homeserver.media.unsealed import UnsealedPolicy

doubtful_option = click.option(
    "--doubtful",
    type=click.Choice([way.value for way in UnsealedPolicy]),
    default=UnsealedPolicy.REFUSE.value,
    show_default=True,
    help="Operations on the medium that no client of yours sealed. refuse: leave them and stop. "
    "accept: execute them. drop: move them, and those that part from home's log, into a log beside "
    "it.",
)
