# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The guests that were admitted here, each a stranger to the others.

- register: who is admitted, and who is not any more; banned: whom the operator wants never again
- tenant: one of them, and what it uses; visitor: who the key is that sshd has let in
- wanted: what one asks for, checked; brought: which chunks of the cache it may ask for
"""
