# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Services of docs/examples that nobody here wrote, carried, and used by clients of their own."""
