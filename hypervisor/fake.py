# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Machines in memory: the twin of the real drivers, for tests of everything above them.

The guest is a Python object behind a real Unix socket. What is faithful: the life cycle and its
errors; a paused machine does not read its socket, and what was sent meanwhile is answered after
resume; the guest's memory is in the RAM file while it is paused, the device state is apart from it,
and a device state loads only with the RAM that belongs to it. Disks are not touched. There is no
kernel in it that could mount anything, so a spec with shares is one that it cannot run.

RAM file: b"satchel-fake-ram", length (8 bytes, little endian), what the guest froze to.
Device state: JSON {"spec": the spec, "memory": SHA-256 of what the guest froze to, in hex}.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hypervisor.machine import (
    Boot,
    DeviceStateRefused,
    MachineFailed,
    MachineSpec,
    MachineState,
    MachineUnsupported,
    SpecInvalid,
    Wiring,
    check_arrow,
    check_call,
    check_wiring,
)
from satchel.files import write_durably
from satchel.readiness import readable

_MAGIC = b"satchel-fake-ram"
_HEADER = len(_MAGIC) + 8
_PIECE = 1 << 16
_PATIENCE_SECONDS = 60.0
"""How long the guest waits for a host that does not read; then it hangs up."""


class FakeGuest(Protocol):
    """What runs in a fake machine. Called by one thread at a time, never while it is paused."""

    def receive(self, data: bytes) -> bytes:
        """Bytes arrived at the agent's port, cut anywhere; bytes to answer with, perhaps none."""

    def freeze(self) -> bytes:
        """All that the guest knows; at most the machine's RAM less 24 bytes."""

    def thaw(self, memory: bytes) -> None:
        """Become the guest that froze to `memory`."""


class FakeDriver:
    """See hypervisor.Driver.

    guest: makes the guest of a new machine; a test may have others made from some moment on.
    lacking: what check() finds that this host lacks, so that a test can have an unable host.
    accelerators: those that this host has.
    machines: all that were started, in order, so that a test can break one (FakeMachine.crash).
    """

    name = "fake"

    def __init__(
        self,
        guest: Callable[[], FakeGuest],
        *,
        lacking: tuple[str, ...] = (),
        accelerators: tuple[str, ...] = ("tcg",),
    ) -> None:
        self.guest = guest
        self.lacking = lacking
        self.accelerators = accelerators
        self.machines: list[FakeMachine] = []

    def lacks(self, accelerator: str) -> str:
        return "" if accelerator in self.accelerators else f"{accelerator} in this test"

    def check(self, spec: MachineSpec) -> None:
        accelerator = self.lacks(spec.accelerator)
        shares = "a guest that mounts shares" if spec.shares else ""
        if lacking := [one for one in (*self.lacking, accelerator, shares) if one]:
            raise MachineUnsupported(lacking)

    def start(self, spec: MachineSpec, wiring: Wiring, boot: Boot | None) -> FakeMachine:
        self.check(spec)
        check_wiring(spec, wiring)
        machine = FakeMachine(spec, wiring, self.guest(), incoming=boot is None)
        self.machines.append(machine)
        return machine

    def adopt(self, spec: MachineSpec, wiring: Wiring) -> FakeMachine:
        """A fake machine lives in our process: there is one only if we started it."""
        for machine in reversed(self.machines):
            alive = machine.state not in (MachineState.STOPPED, MachineState.FAILED)
            if machine.wiring.run_dir == wiring.run_dir and alive:
                return machine
        raise MachineFailed(f"no machine runs in {wiring.run_dir}", fix="start another one")


class FakeMachine:
    """See hypervisor.Machine."""

    def __init__(
        self, spec: MachineSpec, wiring: Wiring, guest: FakeGuest, *, incoming: bool
    ) -> None:
        self._spec = spec
        self.wiring = wiring
        self.guest = guest
        self._changing = threading.RLock()
        self._state = MachineState.STARTING
        self._failure: str | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.wiring.agent_socket.unlink(missing_ok=True)
        self._server.bind(bytes(self.wiring.agent_socket))
        self._server.listen(1)
        self._wake, self._bell = os.pipe()
        self._connection: socket.socket | None = None
        self._become(MachineState.INCOMING if incoming else MachineState.RUNNING)
        self._thread = threading.Thread(target=self._run, name="fake machine", daemon=True)
        self._thread.start()

    @property
    def state(self) -> MachineState:
        return self._state

    @property
    def pid(self) -> int:
        """Ours: there is no other process."""
        return os.getpid()

    def load(self, device_state: Path) -> None:
        with self._changing:
            check_call(self, "load", MachineState.INCOMING)
            try:
                self.guest.thaw(self._recall(device_state.read_bytes()))
            except (ValueError, KeyError, TypeError, SpecInvalid) as error:
                self._fail(f"load of the device state failed: {error}")
                why = self._failure or ""
                raise DeviceStateRefused("the device state is refused", why=why) from error
            self._become(MachineState.PAUSED)

    def resume(self) -> None:
        with self._changing:
            check_call(self, "resume", MachineState.PAUSED)
            self._become(MachineState.RUNNING)

    def pause(self) -> None:
        with self._changing:
            check_call(self, "pause", MachineState.RUNNING)
            memory = self.guest.freeze()
            assert _HEADER + len(memory) <= self._spec.memory_bytes, "the guest outgrew its RAM"
            with self.wiring.ram.open("r+b") as file:
                file.write(_MAGIC + len(memory).to_bytes(8, "little") + memory)
            self._become(MachineState.PAUSED)

    def save(self, device_state: Path) -> None:
        with self._changing:
            check_call(self, "save", MachineState.PAUSED)
            digest = hashlib.sha256(self._memory()).hexdigest()
            state = {"spec": self._spec.to_json(), "memory": digest}
            write_durably(device_state, json.dumps(state).encode())

    def weigh(self, weight: int) -> None:
        """It shares this process's part."""

    def stop(self) -> None:
        with self._changing:
            if self._state is MachineState.STOPPED:
                return
            self._become(MachineState.STOPPED)
        self._thread.join()
        self._server.close()
        os.close(self._wake)
        os.close(self._bell)
        self.wiring.agent_socket.unlink(missing_ok=True)

    def failure(self) -> str | None:
        return self._failure

    def crash(self, why: str = "the test ended it") -> None:
        """End by itself, as a killed process does: in the middle of what its guest says, too. Then
        the guest's thread goes on only once the connection is cut; else whoever sees that finds a
        machine that has failed."""
        connection = self._connection
        if at_once := self._changing.acquire(blocking=False):
            self._fail(why)
            self._changing.release()
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if not at_once:
            with self._changing:
                if self._state is not MachineState.STOPPED:
                    self._fail(why)

    def _become(self, state: MachineState) -> None:
        with self._changing:
            check_arrow(self._state, state)
            self._state = state
            os.write(self._bell, b"!")

    def _fail(self, why: str) -> None:
        self._failure = f"the fake machine ended: {why}"
        self._become(MachineState.FAILED)

    def _memory(self) -> bytes:
        with self.wiring.ram.open("rb") as file:
            header = file.read(_HEADER)
            if not header.startswith(_MAGIC):
                raise ValueError("there is no fake guest in the RAM file")
            return file.read(int.from_bytes(header[len(_MAGIC) :], "little"))

    def _recall(self, device_state: bytes) -> bytes:
        state = json.loads(device_state)
        saved = MachineSpec.from_json(state["spec"])
        if self._spec.accelerator not in saved.accelerators:
            raise ValueError(f"it is of a machine under {saved.accelerator}")
        if saved.under(self._spec.accelerator) != self._spec:
            raise ValueError("it is of another machine spec")
        memory = self._memory()
        if hashlib.sha256(memory).hexdigest() != state["memory"]:
            raise ValueError("the RAM is not the one that belongs to it")
        return memory

    def _run(self) -> None:
        """Serve the agent's port while RUNNING; end in STOPPED or FAILED."""
        while self._state not in (MachineState.STOPPED, MachineState.FAILED):
            waiting: list[int | socket.socket] = [self._wake]
            if self._state is MachineState.RUNNING:
                waiting.append(self._connection or self._server)
            ready = readable(waiting)
            if self._wake in ready:
                os.read(self._wake, _PIECE)
            elif self._connection is None:
                self._connection, _ = self._server.accept()
                self._connection.settimeout(_PATIENCE_SECONDS)
            else:
                self._serve(self._connection)
        self._hang_up()

    def _serve(self, connection: socket.socket) -> None:
        with self._changing:
            if self._state is not MachineState.RUNNING:
                return
            with contextlib.suppress(OSError):
                data = connection.recv(_PIECE)
                if data:
                    connection.sendall(self.guest.receive(data))
                    return
            self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
