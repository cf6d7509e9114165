# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home`: where it begins."""

from __future__ import annotations

from console import end_at_signals


def main() -> None:
    """Run `satchel-home`."""
    end_at_signals("satchel-home")
    from console import run_program
    from homeserver.cli import group

    run_program(group, "satchel-home")


if __name__ == "__main__":
    main()
