# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One machine that is a QEMU process. What QEMU does that is not obvious, and is relied upon:

- A device state is a migration stream without the RAM (capability x-ignore-shared), written to and
  read from a Unix socket of ours: QEMU's sandbox forbids it to start a program for that.
- After an outgoing migration QEMU has given its disks away; `cont` takes them back, and the machine
  goes on. Until then it refuses a second migration, so the bytes of the first are kept.
- `stop` and the end of a migration both flush all disks; a failed flush fails the migration.
- A QEMU that cannot load a stream exits with status 1, and says so.
- A page of RAM that cannot be read ends QEMU with SIGBUS.
- A process whose dirty RAM cannot be written back to its file does not end, even when killed; it
  does once nbdfuse has been ended.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypervisor.machine import (
    LOCK_FILE,
    PID_FILE,
    DeviceStateRefused,
    MachineFailed,
    MachineState,
    MachineStateError,
    MachineStuck,
    Wiring,
    check_arrow,
    check_call,
)
from hypervisor.qemu.qmp import Monitor, MonitorGone, MonitorRefused
from hypervisor.qemu.stream import StreamBroken, listening, receive, send, send_all
from hypervisor.ram import RamMount, RamMountFailed
from satchel.errors import SatchelError
from satchel.process import Process, printable_tail

MONITOR_SOCKET = "monitor.sock"
MIGRATION_SOCKET = "migration.sock"
OUTPUT = "qemu.log"

START_SECONDS = 300.0
"""Until QEMU answers: it reads from its disk and its RAM when it starts, which may come over a slow
link. One that has ended is noticed at once."""

JOIN_SECONDS = 15.0
LOAD_SECONDS = 900.0
"""How long loading may take: devices look at the guest's RAM, which may come over a slow link."""

SAVE_SECONDS = 300.0
QUIT_SECONDS = 3.0
KILL_SECONDS = 2.0
EXIT_SECONDS = 15.0
"""From an accepted `quit` to the end of the process; its dirty RAM is written back meanwhile."""

_POLL_SECONDS = 0.003
_CAPABILITIES = [{"capability": "x-ignore-shared", "state": True}]
_LIVING = (MachineState.INCOMING, MachineState.RUNNING, MachineState.PAUSED)


@dataclass(frozen=True)
class IncomingState:
    """How a device state gets into a QEMU that can make no socket. ours: what it is written to.
    theirs: what QEMU calls the other end."""

    ours: socket.socket
    theirs: int


class QemuMachine:
    """See hypervisor.Machine. The driver makes it, and calls `begin` or `join` once."""

    def __init__(
        self,
        wiring: Wiring,
        process: Process,
        channels: Path | None = None,
        incoming: IncomingState | None = None,
        weigh: Callable[[int], None] | None = None,
    ) -> None:
        """channels: the folder of the sockets that QEMU makes, where it is not the run folder: of a
        QEMU with a user of its own, who may make files only there. incoming: of one in a confined
        room, who can make none. weigh: of one whose room does not do that."""
        self._weigh = weigh or wiring.room.weigh
        self._incoming = incoming
        self.wiring = wiring
        self._channels = channels or wiring.run_dir
        self._process = process
        self._turn = threading.Lock()
        self._changing = threading.RLock()
        self._state = MachineState.STARTING
        self._monitor: Monitor | None = None
        self._saved: bytes | None = None
        self._stall: str | None = None
        self._failure: str | None = None

    def begin(self, *, incoming: bool) -> None:
        """STARTING -> INCOMING or RUNNING. Raises MachineFailed."""
        with self._talking("start"):
            self._connect(START_SECONDS)
            if not incoming:
                self._execute("cont")
            self._become(MachineState.INCOMING if incoming else MachineState.RUNNING)

    def join(self) -> None:
        """STARTING -> whatever a QEMU that runs already is doing. Raises MachineFailed."""
        found = {"running": MachineState.RUNNING, "inmigrate": MachineState.INCOMING}
        with self._talking("adopt"):
            self._connect(JOIN_SECONDS)
            status = self._execute("query-status")["status"]
            self._become(found.get(status, MachineState.PAUSED))

    @property
    def state(self) -> MachineState:
        with self._changing:
            over = self._state in (MachineState.STOPPED, MachineState.FAILED)
            if not over and self._process.ended():
                self._become(MachineState.FAILED)
            return self._state

    @property
    def pid(self) -> int:
        return self._process.pid

    def load(self, device_state: Path) -> None:
        with self._turn:
            check_call(self, "load", MachineState.INCOMING)
            stream = device_state.read_bytes()
            path = self._channels / MIGRATION_SOCKET
            path.unlink(missing_ok=True)
            with self._talking("load"):
                if self._incoming is None:
                    self._execute("migrate-incoming", {"uri": f"unix:{path}"})
                    send(path, stream, LOAD_SECONDS, self.pid)
                else:
                    self._execute("migrate-incoming", {"uri": f"fd:{self._incoming.theirs}"})
                    send_all(self._incoming.ours, stream, LOAD_SECONDS)
                self._await("inmigrate", LOAD_SECONDS)
                self._become(MachineState.PAUSED)
            path.unlink(missing_ok=True)

    def resume(self) -> None:
        with self._turn:
            check_call(self, "resume", MachineState.PAUSED)
            self._saved = self._stall = None
            self._become(MachineState.RUNNING)  # first: a disk may stop it again at once
            try:
                with self._talking("resume"):
                    self._execute("cont")
            except MachineFailed:
                self._leave(MachineState.RUNNING, MachineState.PAUSED)
                raise

    def pause(self) -> None:
        with self._turn:
            check_call(self, "pause", MachineState.RUNNING)
            with self._talking("pause"):
                self._execute("stop")
            self._leave(MachineState.RUNNING, MachineState.PAUSED)

    def save(self, device_state: Path) -> None:
        with self._turn:
            check_call(self, "save", MachineState.PAUSED)
            if self._saved is None:
                with self._talking("save"):
                    self._saved = self._migrate()
            try:
                device_state.write_bytes(self._saved)
            except OSError:
                device_state.unlink(missing_ok=True)
                raise

    def weigh(self, weight: int) -> None:
        self._weigh(weight)

    def stop(self) -> None:
        with self._changing:
            if self._state is MachineState.STOPPED and self._process.ended():
                return
            _ = self.failure()
            self._become(MachineState.STOPPED)
        self._end()
        if self._incoming is not None:
            self._incoming.ours.close()
        if self._monitor is not None:
            self._monitor.close()
        wiring = self.wiring
        sockets = (wiring.agent_socket, wiring.shares_socket, wiring.streams_socket)
        ports = [socket.name for socket in sockets]
        for name in (MONITOR_SOCKET, MIGRATION_SOCKET):
            (self._channels / name).unlink(missing_ok=True)
        for name in (*ports, MIGRATION_SOCKET, PID_FILE, LOCK_FILE):
            (self.wiring.run_dir / name).unlink(missing_ok=True)

    def failure(self) -> str | None:
        if self.state is MachineState.FAILED and self._failure is None:
            self._failure = self._diagnosis()
        if self.state is MachineState.PAUSED and self._stall is not None:
            return self._stall
        return self._failure

    def _become(self, state: MachineState) -> None:
        with self._changing:
            if self._state is MachineState.STOPPED and state is not MachineState.STOPPED:
                return
            check_arrow(self._state, state)
            self._state = state

    def _leave(self, state: MachineState, successor: MachineState) -> None:
        """Go from `state` to `successor`, unless it has left `state` already."""
        with self._changing:
            if self._state is state:
                self._become(successor)

    @contextlib.contextmanager
    def _talking(self, call: str) -> Iterator[None]:
        """What goes wrong between QEMU and us becomes what has happened to the machine."""
        try:
            yield
        except (MonitorGone, MonitorRefused, StreamBroken) as error:
            raise self._explain(call, error) from error

    def _explain(self, call: str, error: Exception) -> SatchelError:
        if self._state is MachineState.STOPPED:
            return MachineStateError(call, MachineState.STOPPED, _LIVING)
        if isinstance(error, MonitorRefused) or not self._process.ended(1.0):
            why = error.why if isinstance(error, SatchelError) else str(error)
            return MachineFailed(
                f"cannot {call} the machine", why=f"{why}\n{self._process.report()}"
            )
        why = self.failure() or ""
        if call == "load" and "load of migration failed" in self._process.tail():
            return DeviceStateRefused("QEMU does not accept the device state", why=why)
        return MachineFailed(f"cannot {call} the machine", why=why)

    def _diagnosis(self) -> str:
        if not self._process.ended():
            return f"QEMU does not answer\n{self._process.report()}"
        ending = self._process.ending()
        if "SIGBUS" in ending:
            ending += ": its RAM file failed to deliver a page"
        if ending.endswith("status 0"):
            ending += ": the guest turned itself off, or restarted"
        console = printable_tail(self.wiring.console_log)
        return f"QEMU {ending}\n{self._process.report()}\nconsole: {console or '(none)'}"

    def _connect(self, seconds: float) -> None:
        self._monitor = Monitor(self._channels / MONITOR_SOCKET, self._on_event, seconds)
        self._execute("migrate-set-capabilities", {"capabilities": _CAPABILITIES})

    def _execute(
        self, command: str, arguments: dict[str, Any] | None = None, seconds: float | None = None
    ) -> Any:
        assert self._monitor is not None
        if seconds is None:
            return self._monitor.execute(command, arguments)
        return self._monitor.execute(command, arguments, seconds)

    def _on_event(self, name: str, data: dict[str, Any]) -> None:
        if name == "BLOCK_IO_ERROR" and data.get("action") == "stop":
            reason = data.get("reason", "no reason given")
            self._stall = f"disk {data.get('node-name')} failed a {data.get('operation')}: {reason}"
        if name == "STOP" and self._stall is not None:
            self._leave(MachineState.RUNNING, MachineState.PAUSED)

    def _migrate(self) -> bytes:
        path = self.wiring.run_dir / MIGRATION_SOCKET
        try:
            with listening(path) as server:
                path.chmod(0o666)  # for QEMU's user; the folder lets nobody else in
                self.wiring.room.give(path)
                self._execute("migrate", {"uri": f"unix:{path}"})
                stream = receive(server, SAVE_SECONDS, lambda: not self._process.ended())
        finally:
            path.unlink(missing_ok=True)
        deadline = time.monotonic() + SAVE_SECONDS
        while (found := self._execute("query-migrate"))["status"] != "completed":
            if found["status"] in ("failed", "cancelled") or time.monotonic() > deadline:
                raise StreamBroken(f"migration {found['status']}: {found.get('error-desc', '')}")
            time.sleep(_POLL_SECONDS)
        return stream

    def _await(self, leaves: str, seconds: float) -> None:
        """Wait until QEMU's own state is no longer `leaves`."""
        deadline = time.monotonic() + seconds
        while self._execute("query-status", seconds=seconds)["status"] == leaves:
            if time.monotonic() > deadline:
                raise StreamBroken(f"it is still {leaves} after {seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def _end(self) -> None:
        accepted = False
        if not self._process.ended() and self._monitor is not None:
            with contextlib.suppress(MonitorGone, MonitorRefused):
                self._monitor.execute("quit", seconds=QUIT_SECONDS)
                accepted = True
        if self._process.ended(EXIT_SECONDS if accepted else 0.0):
            return
        if self._process.end(KILL_SECONDS, KILL_SECONDS):
            return
        with contextlib.suppress(RamMountFailed):
            RamMount.adopt(self.wiring.ram.parent, self.wiring.room).abort()
        if self._process.ended(KILL_SECONDS):
            return
        why = f"process {self.pid} cannot write its RAM back to {self.wiring.ram}"
        raise MachineStuck("the machine does not end", why=why)
