# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Replicas of a session at surrogates: which one, by which route, and what becomes of each.

- mover: how one is made there, and put away; handing: what it begins with, and the way of a lead
- replicas: those of a replayed service; quarantine: when one answers otherwise than home
- routes: the ways there, and what each takes; planner: what a session knows of them; history: what
  moves took; tracing: what was done for one
- fits: what a surrogate's machines may run
- prestage: what is brought to the next surrogate ahead; lessons: what was touched, on its way home
- sources: chunks of the medium and of home, offered to a surrogate
"""
