# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a person sees where a code for pairing is shown: a QR code, and what to type without one."""

from __future__ import annotations

import sys

from console.output import note

BLOCKS = "\u2580\u2584\u2588"


def show_code(uri: str, code: str, place: str, *, to_do: str) -> None:
    """On standard error, so that an answer stands alone. The QR code only on a terminal that can
    draw it.

    place: HOST or HOST:PORT, for who types the code; to_do: what to run, before its arguments
    """
    if sys.stderr.isatty() and _draws_blocks():
        import segno  # nobody else needs it

        segno.make(uri, error="l").terminal(out=sys.stderr, border=2, compact=True)
    half = len(code) // 2
    note(f"{to_do} '{uri}'")
    note(f"or: {to_do} {code[:half]}-{code[half:]} --at {place}")


def _draws_blocks() -> bool:
    """Not every character set has what a QR code is drawn of: EUC-JP and ISO 8859 do not."""
    try:
        BLOCKS.encode(sys.stderr.encoding)
    except UnicodeEncodeError:
        return False
    return True
