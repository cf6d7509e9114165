# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home with the service `notes`, whose folder goes from host to host: what it does on each."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from homeserver import Home, HomeSettings
from hypervisor import MachineSpec, QemuDriver
from testbed.built import cache_folder
from tests.replica.machine import asked
from tests.replica.notebook import notebook

LEG = 5
"""Operations on each host."""


def travel(
    data: Path, run: Path, accelerator: Literal["kvm", "tcg"], answers: Sequence[str]
) -> tuple[str, str]:
    """Launch the service of the home in `data` under that accelerator. Have it execute the next LEG
    operations, whose answers must be these, by their number, and take a checkpoint. Nothing runs
    then. What it gives is the digest of the service's state, and what a program in it finds of
    time and randomness."""
    settings = HomeSettings(
        data=data,
        run=run,
        images=cache_folder(),
        settle=False,
        accelerator="tcg" if accelerator == "tcg" else "",  # KVM is taken because it is there
        operation_seconds=300.0,
    )
    home = Home(settings, QemuDriver())
    try:
        service = home.service("notes")
        service.launch()
        assert service.view().accelerator == accelerator
        first = service.view().last_executed + 1
        numbers = range(first, first + LEG)
        given = [one.payload.hex() for one in service.answer([notebook(n) for n in numbers])]
        assert given == list(answers[first - 1 : first - 1 + LEG])
        found = asked(service.replica())
        assert found.startswith(f"{notebook(numbers[-1]).time_ns} ")
        manifest = service.checkpoint().manifest
        spec = MachineSpec.from_json(manifest.machine)
        assert (spec.accelerator, spec.portable) == (accelerator, True)
        assert manifest.operation == numbers[-1]
        return service.replica().digest(list(manifest.contract.state)), found
    finally:
        home.close()
        shutil.rmtree(run, ignore_errors=True)
