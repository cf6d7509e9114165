# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a person at a terminal or a desktop sees of any of the three programs.

- startup: Ctrl-C is quiet before the rest is imported
- program: a click group run as a program: errors become one line and an exit code
- commands: such a group, whose commands are imported when they are wanted; options of all programs
- manager: what systemd is told of a program that it started
- progress: a bar with rate and time left on a terminal, nothing elsewhere
- output: the same answer as a table for people or as JSON for programs
- invitation: a code for pairing, as a QR code and in words
- findings: what is missing, each with its remedy
- desktop: a notification on it
- logs: logging, configured by programs only
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from console.commands import program_group
    from console.desktop import NO_BUS, DesktopNotifier
    from console.findings import Finding, Severity, exit_code, show_findings
    from console.invitation import show_code
    from console.manager import tell_manager
    from console.output import note, print_table, show, size
    from console.program import (
        deaf_to_signals,
        json_option,
        program_path,
        ready,
        run_program,
        serve_until_signal,
        wait_for,
        web_option,
    )
    from console.progress import bar
    from console.startup import end_at_signals, leave_terminal, on_signals
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "NO_BUS",
    "DesktopNotifier",
    "Finding",
    "Severity",
    "bar",
    "deaf_to_signals",
    "end_at_signals",
    "exit_code",
    "json_option",
    "leave_terminal",
    "note",
    "on_signals",
    "print_table",
    "program_group",
    "program_path",
    "ready",
    "run_program",
    "serve_until_signal",
    "show",
    "show_code",
    "show_findings",
    "size",
    "tell_manager",
    "wait_for",
    "web_option",
]
