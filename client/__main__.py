# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel`: where it begins."""

from __future__ import annotations

from console import end_at_signals


def main() -> None:
    """Run `satchel`."""
    end_at_signals("satchel")
    from client.cli import group
    from console import run_program

    run_program(group, "satchel")


if __name__ == "__main__":
    main()
