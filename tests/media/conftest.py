# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
from tests.chunkstore.conftest import media, other, store

__all__ = ["media", "other", "store"]
