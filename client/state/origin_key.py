# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The key that names services in this user's browsers: docs/formats/client-state.md"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from pathlib import Path

from client.state.kept import save

logger = logging.getLogger(__name__)

KEY_SIZE = 32


def origin_key(path: Path) -> bytes:
    """Return the key in the file `path`. If there is none, make one, durably. Raises OSError."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) == KEY_SIZE:
        return key
    if key:
        logger.warning("%s is not a key; browsers know services by new names from now on", path)
        path.unlink(missing_ok=True)
    made = path.with_name(f"{path.name}.{os.getpid()}")
    save(made, secrets.token_bytes(KEY_SIZE), mode=0o600)
    with contextlib.suppress(FileExistsError):  # another session may have made one: that counts
        os.link(made, path)
    made.unlink()
    return path.read_bytes()
