# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Replicas of a session at surrogates: which one, by which route, and what becomes of each.

- replicas: how one is brought up there, and ended; quarantine: when it answers otherwise than home
- routes: the ways there, and what each takes; planner: what a session knows of them; history: what
  moves took; tracing: what was done for one
- fits: what a surrogate's machines may run
- prestage: what is brought to the next surrogate ahead; lessons: what was touched, on its way home
- sources: chunks of the medium and of home, offered to a surrogate
"""
