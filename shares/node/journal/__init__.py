# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What programs were told is written, and home has not confirmed: docs/formats/mount-journal.md.

- journal: that of a mount; records: its file; written_marks: which blocks it is about
- leftovers: what a mount that is no more has left; conflicts: what home does not take any more
"""
