# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with a share, and nodes that reach it."""

from tests.homeserver.shares.conftest import home

__all__ = ["home"]
