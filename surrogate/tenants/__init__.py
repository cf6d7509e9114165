# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The guests that were admitted here, each a stranger to the others.

- register: who is admitted, and who is not any more; ban_list: whom the operator wants never again
- tenant: one of them, and what it uses
- replica_request: what one asks for, checked; readable_chunks: which chunks of the cache it may ask
for
"""
