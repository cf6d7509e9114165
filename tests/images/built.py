# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Images that tests of all parts share with the demo: see `testbed.built`."""

from testbed.built import built_image, cache_folder

__all__ = ["built_image", "cache_folder"]
