# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One service in use: every operation goes to every replica, and the first response wins.

- session: what programs ask of the service; answers: what they get
- journal: the operations in order, durable before any replica sees them
- feed: one replica's cursor into the journal, and what it reports; assignments: what replicas
  do next; home_endpoint: home, as a feed sees it
- pace: how long a replica took of late; reads: to whom goes what changes nothing; sampling: the
  reads that wait
- long_answer, long_request: those that go in pieces
- joining: how long one is waited for that is on its way to taking part
- comparison: what replicas answered, compared with home; verification: what follows from that;
  provisional: what home has not confirmed
- evidence, proof: what is kept, and given to others, of an answer that differed
- split_log: operations that home has differently
- checkpoints: from which one a session goes on; parking: it leaves home; shutdown: what it tells
home
"""
