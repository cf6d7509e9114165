# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What every command of `satchel` has."""

from __future__ import annotations

from dataclasses import dataclass

import click

from client.settings import ClientSettings


@dataclass(frozen=True)
class Context:
    """The settings."""

    settings: ClientSettings


pass_context = click.make_pass_decorator(Context)
