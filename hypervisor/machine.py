# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine is, whoever runs it: the spec, the wiring, the life cycle and what goes wrong.

The life of a machine. One method of an implementation changes the state, and only along these
arrows; a call that needs another state raises MachineStateError and changes nothing.

    start(boot)     STARTING ------------------> RUNNING
    start(None)     STARTING --> INCOMING -load-> PAUSED
    resume()                      PAUSED <------> RUNNING      pause()
    stop()          any state -----------------> STOPPED
    (by itself)     any state but STOPPED -----> FAILED        failure() says why

A machine of which a disk did not answer goes from RUNNING to PAUSED by itself: failure() says
so, and resume() tries the same requests again. Nothing is lost by it.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from satchel.confinement import HOST, Confinement
from satchel.errors import (
    IntegrityError,
    StateError,
    UnavailableError,
    UnsupportedError,
    UsageError,
)
from satchel.names import NAME

MACHINE_TYPE = "pc-q35-5.1"
"""The machine type of new machines. Versioned, because checkpoints travel. QEMU 7.2 and 10 have it,
and it is the newest without a device `kvmclock` in every machine under KVM, which emulation
refuses in a device state."""

PORTABLE_TYPE = (5, 1)
"""The newest version of q35 of which a portable machine can be: see MACHINE_TYPE."""

CPU_MODEL = "Westmere-v1"
"""The CPU model of new machines: the newest one of which TCG in QEMU 7.2 has every feature, and
x86-64-v2 (SSE 4.2, POPCNT, CX16), which is what Debian's numerical packages ask for. It has no
RDRAND and no RDSEED: replicas cannot draw different numbers from them."""

MEMORY_LIMIT_MIB = 64 * 1024
VCPU_LIMIT = 16
DISK_LIMIT = 8

PID_FILE = "qemu.pid"
LOCK_FILE = "qemu.lock"
"""What a machine's process locks in a confined room, instead of its pid file: the number that it
writes there is one of that room."""

CONSOLE_LOG = "console.log"
CONFINED_FILES = (LOCK_FILE, CONSOLE_LOG)
"""What a machine's process writes in its folder, beside what it sends."""

LAUNCHER = Path(__file__).parent / "qemu" / "launch.py"
"""A program of ours by which a machine's process starts: a confined room must show it."""

_MACHINE_TYPE = re.compile(r"pc-q35-[0-9]{1,2}\.[0-9]{1,2}", re.ASCII)
_CPU_MODEL = re.compile(
    r"[A-Za-z][A-Za-z0-9_]{1,30}(-[A-Za-z0-9]{1,20}){0,3}-v[0-9]{1,2}", re.ASCII
)
ACCELERATORS = ("kvm", "tcg")
"""The faster one first. kvm: hardware virtualisation; tcg: QEMU's emulation."""


class SpecInvalid(UsageError):
    """The machine spec is wrong. field: the name of the wrong field, or empty."""

    def __init__(self, field: str, why: str) -> None:
        what = f"invalid machine spec: {field}" if field else "invalid machine spec"
        super().__init__(what, why=why)
        self.field = field


class MachineUnsupported(UnsupportedError):
    """This host lacks something that the spec asks for. lacking: what, one clause each; fix: what
    could run it."""

    def __init__(self, lacking: Sequence[str], fix: str = "use another host") -> None:
        why = f"it lacks {', '.join(lacking)}"
        super().__init__("this host cannot run the machine", why=why, fix=fix)
        self.lacking = tuple(lacking)


class MachineStateError(StateError):
    """The machine is in `state`; the call needs one of `required`. Nothing was changed."""

    def __init__(self, call: str, state: MachineState, required: Sequence[MachineState]) -> None:
        wanted = " or ".join(one.value for one in required)
        super().__init__(
            f"cannot {call} a machine that is {state.value}", why=f"it must be {wanted}"
        )
        self.state = state
        self.required = tuple(required)


class MachineFailed(UnavailableError):
    """The machine ended by itself or does not answer; why carries the known facts."""


class DeviceStateRefused(IntegrityError):
    """The device state is damaged, or belongs to another machine or RAM. The machine failed."""


class MachineStuck(UnavailableError):
    """The machine does not end even when killed. Call stop() again later."""


class MachineState(enum.Enum):
    """Where a machine is in its life; the arrows are in the module's docstring."""

    STARTING = "starting"
    INCOMING = "incoming"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"


_LIVING = (MachineState.INCOMING, MachineState.RUNNING, MachineState.PAUSED)
_ARROWS = {
    MachineState.STARTING: {*_LIVING, MachineState.FAILED, MachineState.STOPPED},
    MachineState.INCOMING: {MachineState.PAUSED, MachineState.FAILED, MachineState.STOPPED},
    MachineState.RUNNING: {MachineState.PAUSED, MachineState.FAILED, MachineState.STOPPED},
    MachineState.PAUSED: {MachineState.RUNNING, MachineState.FAILED, MachineState.STOPPED},
    MachineState.FAILED: {MachineState.STOPPED},
    MachineState.STOPPED: {MachineState.STOPPED},
}


_FLAGS = frozenset({"shares", "streams"})
"""Fields of a spec that stand in its JSON only where they are true."""

_OPTIONAL = _FLAGS | {"firmware"}
"""Fields of a spec that stand in its JSON only where they say something."""

FIRMWARES = ("bios", "uefi")
"""What starts a machine from its first disk: SeaBIOS, or OVMF."""


@dataclass(frozen=True)
class MachineSpec:
    """What a checkpoint asks of a host. Travels in manifests, so every value is checked.

    memory_mib: MiB of guest RAM. disks: volume names; the order is vda, vdb ... in the guest.
    machine_type: a versioned q35. cpu_model: a named model with its version, never "host".
    accelerator: "tcg" or "kvm": what the machine runs under, or ran under when it was saved.
    portable: whether it continues under the other accelerator as well. Its CPU has only features
        that both have and show alike, which costs time under KVM:
        docs/decisions/2026-11-25-either-accelerator.md. Missing in older JSON, where it is false.
    shares: whether the guest has the port `org.satchel.shares`; in JSON it is there only where it
        is true, so a spec without it is what it was before there were shares. streams: likewise,
        the port `org.satchel.streams`.
    firmware: one of FIRMWARES for a machine that starts from its first disk, as a computer does;
        empty, and not in JSON, for one that is started with a kernel.
    Raises SpecInvalid.
    """

    memory_mib: int
    disks: tuple[str, ...]
    machine_type: str = MACHINE_TYPE
    cpu_model: str = CPU_MODEL
    vcpus: int = 1
    accelerator: str = "tcg"
    portable: bool = True
    shares: bool = False
    streams: bool = False
    firmware: str = ""

    def __post_init__(self) -> None:
        _check_number("memory_mib", self.memory_mib, 16, MEMORY_LIMIT_MIB)
        _check_number("vcpus", self.vcpus, 1, VCPU_LIMIT)
        _check_name("machine_type", self.machine_type, _MACHINE_TYPE, MACHINE_TYPE)
        _check_name("cpu_model", self.cpu_model, _CPU_MODEL, CPU_MODEL)
        if self.accelerator not in ACCELERATORS:
            raise SpecInvalid("accelerator", f"it must be one of {', '.join(ACCELERATORS)}")
        for name in {"portable", *_FLAGS}:
            _check_flag(name, getattr(self, name))
        if self.firmware not in ("", *FIRMWARES):
            raise SpecInvalid("firmware", f"it must be one of {', '.join(FIRMWARES)}")
        if not isinstance(self.disks, tuple) or len(self.disks) > DISK_LIMIT:
            raise SpecInvalid("disks", f"it is not a list of at most {DISK_LIMIT} names")
        for name in self.disks:
            _check_name("disks", name, NAME, "disk0")
        if len(set(self.disks)) != len(self.disks) or "ram" in self.disks:
            raise SpecInvalid("disks", "a name stands twice, or is that of the RAM")
        if self.firmware and not self.disks:
            raise SpecInvalid("disks", "no disk to start from")

    @property
    def memory_bytes(self) -> int:
        """Bytes of guest RAM, and the exact size of the RAM file."""
        return self.memory_mib << 20

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Those under which it can go on, the fastest first."""
        version = tuple(int(part) for part in self.machine_type.split("-")[-1].split("."))
        both = self.portable and version <= PORTABLE_TYPE
        return ACCELERATORS if both else (self.accelerator,)

    def under(self, accelerator: str) -> MachineSpec:
        """The same machine where it runs under that one of `accelerators`."""
        assert accelerator in self.accelerators, f"{accelerator} is none of {self.accelerators}"
        return dataclasses.replace(self, accelerator=accelerator)

    def to_json(self) -> dict[str, Any]:
        """The fields by name, in JSON types."""
        value = {**dataclasses.asdict(self), "disks": list(self.disks)}
        return {key: v for key, v in value.items() if key not in _OPTIONAL or v}

    @classmethod
    def from_json(cls, value: object) -> MachineSpec:
        """The other way round, from anybody: all fields, no other ones, all checked. Without
        `portable`, which older ones lack, the machine is not.

        Raises SpecInvalid.
        """
        if not isinstance(value, dict):
            raise SpecInvalid("", "it is not a JSON object")
        value = {"portable": False, **value}
        names = {field.name for field in dataclasses.fields(cls)} - _OPTIONAL
        if set(value) - _OPTIONAL != names:
            raise SpecInvalid("", f"its fields are not {', '.join(sorted(names))}")
        for name in sorted(_FLAGS & set(value)):
            if value[name] is not True:
                raise SpecInvalid(name, "where it stands, it is true")
        if value.get("firmware", FIRMWARES[0]) not in FIRMWARES:
            raise SpecInvalid("firmware", f"where it stands, it is one of {', '.join(FIRMWARES)}")
        disks = value["disks"]
        return cls(**{**value, "disks": tuple(disks) if isinstance(disks, list) else disks})


@dataclass(frozen=True)
class Boot:
    """What a first boot starts from. None of it is needed or looked at when a machine resumes.

    A machine with firmware starts from its disk: then all of it is empty.
    """

    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""

    @property
    def files(self) -> list[Path]:
        """Those that the machine's process reads."""
        return [path for path in (self.kernel, self.initrd) if path is not None]

    def moved(self, way: Callable[[Path], Path]) -> Boot:
        """The same with other files, each the way of the one that it was."""
        kernel, initrd = (path and way(path) for path in (self.kernel, self.initrd))
        return dataclasses.replace(self, kernel=kernel, initrd=initrd)


@dataclass(frozen=True)
class Wiring:
    """What a machine is attached to on this host.

    run_dir: an existing private folder of this machine alone, with a short path: sockets are
        made in it. ram: the file that is the guest's RAM, spec.memory_bytes long, all zero at
        a first boot. disks: disk name -> NBD URI on a Unix socket (nbd+unix:///NAME?socket=PATH).
    room: where the machine's process runs. In a confined one only its programs see the RAM file,
        and CONFINED_FILES exist in run_dir and may be written.
        name: what the host's tools may call the machine; empty: they have its run folder's name.
    """

    run_dir: Path
    ram: Path
    disks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    name: str = ""
    room: Confinement = HOST

    @property
    def agent_socket(self) -> Path:
        """The host's end of the guest's port `org.satchel.agent`."""
        return self.run_dir / "agent.sock"

    @property
    def shares_socket(self) -> Path:
        """The host's end of the guest's port `org.satchel.shares`, if the spec has shares."""
        return self.run_dir / "shares.sock"

    @property
    def streams_socket(self) -> Path:
        """The host's end of the guest's port `org.satchel.streams`, if the spec has streams."""
        return self.run_dir / "streams.sock"

    @property
    def console_log(self) -> Path:
        """What the guest wrote to its serial console, up to a limit."""
        return self.run_dir / CONSOLE_LOG


class Machine(Protocol):
    """One guest. Its methods may be called from any thread; they take turns.

    Every call may raise MachineFailed when the machine ended by itself meanwhile.
    """

    @property
    def state(self) -> MachineState:
        """As of now: notices that the machine ended, or that a disk made it pause."""

    @property
    def wiring(self) -> Wiring:
        """What it was started with. The sockets of the guest's ports are there from start to stop,
        each for one connection at a time."""

    @property
    def pid(self) -> int:
        """The process that is the machine."""

    def load(self, device_state: Path) -> None:
        """INCOMING -> PAUSED, at the point where that device state was saved.

        The RAM file and the disks must hold what they held then. Raises DeviceStateRefused;
        the machine is FAILED then.
        """

    def resume(self) -> None:
        """PAUSED -> RUNNING."""

    def pause(self) -> None:
        """RUNNING -> PAUSED. No block of a disk is in flight or unflushed when it returns."""

    def save(self, device_state: Path) -> None:
        """Write the device state to a new file; needs PAUSED and stays PAUSED.

        The checkpoint is complete when the RAM file has been synced too (after save, before
        resume). The machine may be resumed afterwards and goes on as if nothing had happened.
        Called again before that, it writes the same bytes. A failed call leaves no file.
        """

    def weigh(self, weight: int) -> None:
        """Give it that part of the processors while others want them; see Confinement.weigh."""

    def stop(self) -> None:
        """End it in any state, for good, at once: STOPPED. Leaves no process and no socket.

        A RAM mount whose server does not answer is aborted for that (RamMount.abort). Raises
        MachineStuck. Does nothing to a machine that is STOPPED; after FAILED it cleans up.
        """

    def failure(self) -> str | None:
        """Why it is FAILED, or why it paused by itself; None when it did not."""


class Driver(Protocol):
    """Starts machines. Thread-safe."""

    @property
    def name(self) -> str:
        """For settings and reports."""

    def lacks(self, accelerator: str) -> str:
        """What this host lacks for that one of ACCELERATORS, one clause; empty if it works here.

        The first answer may take some seconds, within a limit, also where a guest would hang.
        """

    def check(self, spec: MachineSpec) -> None:
        """Raise MachineUnsupported, naming all that is lacking, if this host cannot run it under
        the accelerator that the spec names."""

    def start(self, spec: MachineSpec, wiring: Wiring, boot: Boot | None) -> Machine:
        """A machine that is RUNNING, from a first boot; or, without boot, INCOMING.

        Raises MachineUnsupported, UsageError for a wiring that does not fit the spec, and
        MachineFailed with exit status, command line and the tail of the output. Nothing stays
        behind then, and neither does after an interrupt.
        """

    def adopt(self, spec: MachineSpec, wiring: Wiring) -> Machine:
        """The machine that an earlier process of ours started there and left behind.

        RUNNING, PAUSED or INCOMING as it is. Raises MachineFailed if there is none any more.
        """


def check_arrow(state: MachineState, successor: MachineState) -> None:
    """For implementations, in the one method that changes the state: a wrong step is our bug."""
    assert successor in _ARROWS[state], f"a machine does not go from {state} to {successor}"


def check_call(machine: Machine, call: str, required: MachineState) -> None:
    """For implementations: raise MachineFailed or MachineStateError unless it is `required`."""
    state = machine.state
    if state is MachineState.FAILED:
        raise MachineFailed(f"cannot {call} the machine", why=machine.failure() or "")
    if state is not required:
        raise MachineStateError(call, state, (required,))


def check_wiring(spec: MachineSpec, wiring: Wiring) -> None:
    """For drivers: raise UsageError unless RAM file and disks are those of the spec."""
    if set(wiring.disks) != set(spec.disks):
        why = f"wired: {sorted(wiring.disks)}, wanted: {sorted(spec.disks)}"
        raise UsageError("the wiring's disks are not those of the machine spec", why=why)
    if wiring.room.confined:  # it cannot be seen from here; QEMU refuses one that is too short
        return
    try:
        size = wiring.ram.stat().st_size
    except OSError as error:
        raise UsageError(f"cannot use the RAM file {wiring.ram}", why=str(error)) from error
    if size != spec.memory_bytes:
        why = f"it has {size} bytes and the machine {spec.memory_bytes}"
        raise UsageError(f"the RAM file {wiring.ram} does not fit", why=why)


def _check_number(field: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SpecInvalid(field, f"it is not a whole number from {least} to {most}")


def _check_flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise SpecInvalid(field, "it is neither true nor false")


def _check_name(field: str, value: object, pattern: re.Pattern[str], example: str) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise SpecInvalid(field, f"it is not a name such as {example}")
