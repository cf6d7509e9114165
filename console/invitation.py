# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a person sees where a code for pairing is shown: a QR code, and what to type without one."""

from __future__ import annotations

import sys

import click


def show_code(uri: str, code: str, place: str, *, to_do: str) -> None:
    """On standard error, so that an answer stands alone. The QR code on a terminal only.

    place: HOST or HOST:PORT, for who types the code; to_do: what to run, before its arguments
    """
    if sys.stderr.isatty():
        import segno  # nobody else needs it

        segno.make(uri, error="l").terminal(out=sys.stderr, border=2, compact=True)
    half = len(code) // 2
    click.echo(f"{to_do} '{uri}'", err=True)
    click.echo(f"or: {to_do} {code[:half]}-{code[half:]} --at {place}", err=True)
