# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What this host's QEMU can be, asked of QEMU itself."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypervisor.machine import MachineSpec
from hypervisor.qemu import kvm
from hypervisor.qemu.argv import BINARY, UEFI_FIRMWARE, WITHOUT

_QUESTIONS = ("qmp_capabilities", "query-machines", "query-cpu-definitions", "quit")
_ASK_SECONDS = 30.0


@dataclass(frozen=True)
class Abilities:
    """machines: machine types by name. cpus: CPU models, and the features that each would lack."""

    machines: frozenset[str]
    cpus: Mapping[str, tuple[str, ...]]


def lacking(spec: MachineSpec) -> list[str]:
    """All that this host lacks for that machine, one clause each; empty if it can run it."""
    if reason := lacks_accelerator(spec.accelerator):
        return [reason]
    abilities = ask(spec.accelerator)
    found = []
    if spec.firmware == "uefi" and not UEFI_FIRMWARE.is_file():
        found.append(f"{UEFI_FIRMWARE} (apt install ovmf)")
    if spec.machine_type not in abilities.machines:
        found.append(f"a QEMU with the machine type {spec.machine_type}")
    features = abilities.cpus.get(spec.cpu_model)
    if features:
        features = tuple(one for one in features if one not in WITHOUT)
    if features is None:
        found.append(f"a QEMU with the CPU model {spec.cpu_model}")
    elif features:
        found.append(f"the features {', '.join(features)} of the CPU model {spec.cpu_model}")
    return found


def lacks_accelerator(accelerator: str) -> str:
    """See Driver.lacks."""
    if shutil.which(BINARY) is None:
        return BINARY
    return kvm.lacking() if accelerator == "kvm" else ""


@functools.cache
def ask(accelerator: str) -> Abilities:
    """Run QEMU for a moment, without a machine. A QEMU that does not answer has no abilities."""
    command = [BINARY, "-nodefaults", "-no-user-config", "-machine", "none", "-accel", accelerator]
    command += ["-display", "none", "-S", "-qmp", "stdio"]
    questions = "".join(json.dumps({"execute": one}) for one in _QUESTIONS).encode()
    try:
        answer = _answer(command, questions)
        lists = [value for line in answer.splitlines() if (value := _result_list(line))]
    except (OSError, ValueError, subprocess.TimeoutExpired):
        lists = []
    if len(lists) != 2:
        return Abilities(frozenset(), {})
    machines, cpus = lists
    return Abilities(
        frozenset(one["name"] for one in machines),
        {one["name"]: tuple(one.get("unavailable-features", ())) for one in cpus},
    )


def _answer(command: list[str], questions: bytes) -> bytes:
    """What that QEMU says. Raises TimeoutExpired for one that hangs; it is killed, and left behind
    where it hangs in the kernel."""
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    qemu = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet)
    try:
        return qemu.communicate(questions, timeout=_ASK_SECONDS)[0]
    finally:
        qemu.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            qemu.wait(kvm.REAP_SECONDS)


def _result_list(line: bytes) -> list[dict[str, Any]] | None:
    message = json.loads(line)
    result = message.get("return")
    return result if isinstance(result, list) else None
