# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""QEMU's monitor, synchronous. The library speaks asyncio; none of it gets out of this module."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from qemu.qmp import EventListener, ExecuteError, QMPClient, QMPError

from satchel.errors import SatchelError, UnavailableError

T = TypeVar("T")

COMMAND_SECONDS = 120.0
"""How long a command may take. QEMU answers late while its guest waits for RAM over a slow link."""

_CLOSE_SECONDS = 2.0
_QUIET = logging.CRITICAL + 1


class MonitorRefused(SatchelError):
    """QEMU refused the command; why is its reason."""


class MonitorGone(UnavailableError):
    """QEMU ended, closed the connection or did not answer in time."""


class Monitor:
    """One connection to a QEMU. Thread-safe; commands of several threads take turns in QEMU.

    on_event(name, data) is called in the connection's own thread; it must not block and must not
    call the monitor.
    """

    def __init__(
        self,
        socket: Path,
        on_event: Callable[[str, dict[str, Any]], None],
        seconds: float = COMMAND_SECONDS,
    ) -> None:
        """Connect, and wait until QEMU is ready for commands. Raises MonitorGone.

        QEMU serves one connection at a time: while somebody else has one, this waits for `seconds`.
        """
        self._loop = asyncio.new_event_loop()
        self._client = QMPClient("satchel")
        self._client.logger.setLevel(_QUIET)  # all that it logs is raised as well
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="qmp", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        try:
            self._wait(self._open(str(socket), on_event), seconds, "connect")
        except BaseException:
            self.close()
            raise

    def execute(
        self,
        command: str,
        arguments: dict[str, Any] | None = None,
        seconds: float = COMMAND_SECONDS,
    ) -> Any:
        """The command's result, as JSON values. Raises MonitorRefused and MonitorGone."""
        return self._wait(self._client.execute(command, arguments), seconds, command)

    def close(self) -> None:
        """End the connection and its thread. QEMU stays. Commands under way raise MonitorGone."""
        with self._closing:
            if self._loop.is_closed():
                return
            atexit.unregister(self.close)
            closing = asyncio.run_coroutine_threadsafe(self._disconnect(), self._loop)
            with contextlib.suppress(Exception):
                closing.result(_CLOSE_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _open(self, socket: str, on_event: Callable[[str, dict[str, Any]], None]) -> None:
        listener = EventListener()
        self._client.register_listener(listener)
        await self._client.connect(socket)
        self._listening = asyncio.create_task(_listen(listener, on_event))

    async def _disconnect(self) -> None:
        """Also ends the tasks of other threads' commands, so that none of them waits for ever."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._client.disconnect(), _CLOSE_SECONDS / 2)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _wait(self, call: Coroutine[Any, Any, T], seconds: float, command: str) -> T:
        what = f"QEMU did not do {command}"
        if self._loop.is_closed():
            call.close()
            raise MonitorGone(what, why="the connection is closed")
        try:
            limited = asyncio.wait_for(call, seconds)
            return asyncio.run_coroutine_threadsafe(limited, self._loop).result()
        except ExecuteError as error:
            raise MonitorRefused(what, why=str(error)) from error
        except TimeoutError as error:
            raise MonitorGone(what, why=f"no answer within {seconds:g} s") from error
        except (QMPError, OSError, EOFError, RuntimeError) as error:
            raise MonitorGone(what, why=str(error) or type(error).__name__) from error
        except (asyncio.CancelledError, concurrent.futures.CancelledError) as error:
            raise MonitorGone(what, why="the connection was closed meanwhile") from error


async def _listen(listener: EventListener, on_event: Callable[[str, dict[str, Any]], None]) -> None:
    async for event in listener:
        data = event.get("data")
        on_event(str(event["event"]), data if isinstance(data, dict) else {})
