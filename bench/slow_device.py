# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A plugin of nbdkit: a file as a disk whose head moves.

    nbdkit python bench/slow_device.py file=PATH seek=SECONDS rate=BYTES_A_SECOND

A request that does not begin where the one before ended takes `seek` seconds, and each takes the
time that its bytes need at `rate`; one after the other. A request that is a little further on
(SKIP bytes) is reached by letting the head wait, if that is sooner.
"""

from __future__ import annotations

import os
import time
from typing import Any

import nbdkit  # type: ignore[import-not-found]

API_VERSION = 2
SKIP = 1 << 20

_settings: dict[str, str] = {}
_head = [0]


def thread_model() -> Any:
    return nbdkit.THREAD_MODEL_SERIALIZE_ALL_REQUESTS


def config(key: str, value: str) -> None:
    _settings[key] = value


def open(readonly: bool) -> int:
    return os.open(_settings["file"], os.O_RDWR)


def close(file: int) -> None:
    os.close(file)


def get_size(file: int) -> int:
    return os.fstat(file).st_size


def pread(file: int, buffer: bytearray, offset: int, flags: int) -> None:
    _wait(offset, len(buffer))
    os.preadv(file, [buffer], offset)


def pwrite(file: int, buffer: bytearray, offset: int, flags: int) -> None:
    _wait(offset, len(buffer))
    os.pwrite(file, buffer, offset)


def flush(file: int, flags: int) -> None:
    os.fsync(file)


def _wait(offset: int, length: int) -> None:
    rate, seek = float(_settings["rate"]), float(_settings["seek"])
    gap = offset - _head[0]
    reach = min(seek, gap / rate) if 0 <= gap <= SKIP else seek
    time.sleep(reach + length / rate)
    _head[0] = offset + length
