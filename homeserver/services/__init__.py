# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A service that lives at home: its machine, its log, its checkpoints, and who holds it.

- service: a live one, with its first-class replica; machines: first boots, resumes, rehearsals
- records: what is kept of one on disk; lease: which client may number its operations
- replayed: its operations, in the log and executed; carried: its deltas from a machine elsewhere
- remote_touches: what its machines touched elsewhere; visits: connections to a copy, so that it
  touches what any connection needs
- doctor: where two copies differ, and why; trial: may an image be replayed, or has it to be carried
"""
