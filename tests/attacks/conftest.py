# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Homes and worlds as the tests of home and of the client have them."""

from tests.client.conftest import carried, world
from tests.homeserver.conftest import bench
from tests.homeserver.test_carry import media

__all__ = ["bench", "carried", "media", "world"]
