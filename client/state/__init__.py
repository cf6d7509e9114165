# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the client keeps between sessions, in files of its `state` folder: docs/formats.

- kept: a list in such a file, as the others are
- last_seen: the newest checkpoints that this client has known; log_keys: what seals logs on media
- paths: where the client goes; savings: what surrogates were good for
- surrogate_keys: with which keys surrogates sign
"""
