# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The real doors, for daemons that tests run in this process."""

from pathlib import Path

from testbed.roles import PROGRAMS


def door_of(program: str, run: Path, *words: str, **settings: object) -> list[str | Path]:
    """The command that is the door to the daemon whose sockets are in `run`. words: more arguments;
    settings: more of its settings"""
    config = run / "door.toml"
    lines = {"run": f'"{run}"', "data": f'"{run.parent / "data"}"', **settings}
    config.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    return [PROGRAMS / program, "--config", config, "door", *words]
