# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-surrogate`: where it begins."""

from __future__ import annotations

from console import end_at_signals


def main() -> None:
    """Run `satchel-surrogate`."""
    end_at_signals("satchel-surrogate")
    from console import run_program
    from surrogate.cli import group

    run_program(group, "satchel-surrogate")


if __name__ == "__main__":
    main()
