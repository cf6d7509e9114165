# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where the guest agent is that images carry."""

from __future__ import annotations

from pathlib import Path

from satchel.errors import NotFoundError

_PROGRAM = Path(__file__).resolve().parent / "_native" / "satchel-agent"


class AgentMissing(NotFoundError):
    """The native parts are not built."""


def agent_program() -> Path:
    """The static program to put into a guest as its init. AgentMissing if it was not built."""
    if not _PROGRAM.is_file():
        raise AgentMissing(
            "there is no guest agent",
            why=f"{_PROGRAM} was not built",
            fix="run `python setup.py build_ext`",
        )
    return _PROGRAM
