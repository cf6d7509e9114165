# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which sessions run on this client, one at a time for a service, and the way to each of them."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from client.platform.settings import ClientSettings
from satchel.errors import ConflictError, NotFoundError
from satchel.names import check_name
from satchel.polling import FAST_POLL_SECONDS

if TYPE_CHECKING:
    from wire import HttpClient


LOCK_ATTEMPTS = 10


def control_socket(settings: ClientSettings, service: str) -> Path:
    """Where the session of that service answers."""
    return settings.run / f"{check_name(service, 'service')}.sock"


@contextlib.contextmanager
def only_session(settings: ClientSettings, service: str) -> Iterator[None]:
    """Within the block no other session of that service runs on this client.

    Raises ConflictError where one does. `wait_ended` sees the block's end, and so it does when the
    program is killed.
    """
    with _lock_file(settings, service).open("a") as file:
        for _ in range(LOCK_ATTEMPTS):
            if _locks(file, fcntl.LOCK_EX):
                break
            time.sleep(FAST_POLL_SECONDS)  # perhaps somebody only looks
        else:
            raise ConflictError(
                f"a session of {service} runs here already", fix=f"`satchel stop {service}`"
            )
        place = control_socket(settings, service)
        place.unlink(missing_ok=True)  # a killed session's
        try:
            yield
        finally:
            place.unlink(missing_ok=True)  # an interrupt may come before anybody else minds it


def session_runs(settings: ClientSettings, service: str) -> bool:
    """Whether a session of that service runs on this client, or is being put away."""
    path = _lock_file(settings, service)
    if not path.exists():
        return False
    with path.open("a") as file:
        return not _locks(file, fcntl.LOCK_SH)


def wait_ended(settings: ClientSettings, service: str, timeout: float) -> bool:
    """Whether the session of that service has put everything away, waiting up to `timeout` s."""
    deadline = time.monotonic() + timeout
    while session_runs(settings, service):
        if time.monotonic() > deadline:
            return False
        time.sleep(FAST_POLL_SECONDS)
    return True


def running_session(settings: ClientSettings, service: str, fix: str = "") -> HttpClient:
    """A client of the session of that service. Raises NotFoundError where none runs. fix: what to
    do then, by default to run it."""
    path = control_socket(settings, service)
    if not path.exists() or not session_runs(settings, service):
        fix = fix or f"`satchel run {service}`"
        raise NotFoundError(f"no session of {service} runs here", fix=fix)
    from wire import HttpClient  # which is most of what such a command imports

    return HttpClient(path, peer=f"the session of {service}")


def _lock_file(settings: ClientSettings, service: str) -> Path:
    return settings.run / f"{check_name(service, 'service')}.lock"


def _locks(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
