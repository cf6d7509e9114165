# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What somebody tries who has a stick, a surrogate or a guest in hand, each attack by its name."""
