# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Under which accelerator a machine runs on this host, and what this host can run at all.

A machine that is portable goes on under KVM wherever a host has it, and is emulated elsewhere. One
that is not goes on under the accelerator that it ran under before, or not here.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypervisor.machine import ACCELERATORS, Driver, MachineSpec, MachineUnsupported

AUTO = "auto"
"""The wish for no particular accelerator: the fastest one that there is."""

WISHES = (AUTO, *ACCELERATORS)
"""What can be said about a machine's accelerator in recipes, settings and options."""

NAMES = {"kvm": "KVM", "tcg": "emulation"}
"""What people call an accelerator."""


@dataclass(frozen=True)
class HostOffer:
    """What this host can run. accelerators: the fastest first; lacking: for each other one, what
    it lacks."""

    accelerators: tuple[str, ...]
    lacking: dict[str, str]

    @classmethod
    def of(cls, driver: Driver) -> HostOffer:
        """Takes some seconds the first time, within a limit: see Driver.lacks."""
        reasons = {name: driver.lacks(name) for name in ACCELERATORS}
        return cls(
            tuple(name for name, reason in reasons.items() if not reason),
            {name: reason for name, reason in reasons.items() if reason},
        )

    def __str__(self) -> str:
        """One line, for people."""
        if "kvm" in self.accelerators:
            return "runs machines under KVM"
        why = "; ".join(f"{NAMES[name]} lacks {why}" for name, why in self.lacking.items())
        return f"{'emulates machines' if self.accelerators else 'runs no machine'}: {why}"


def place(driver: Driver, spec: MachineSpec, wish: str = AUTO) -> MachineSpec:
    """The same machine under the accelerator that it is to run under here, which is checked.

    wish: one of WISHES. Raises MachineUnsupported, which names what this host lacks for each
    accelerator that would do, and which hosts could run the machine.
    """
    assert wish in WISHES, f"{wish} is none of {WISHES}"
    wanted = spec.accelerators if wish == AUTO else (wish,)
    lacking: list[str] = []
    for accelerator in wanted:
        if accelerator not in spec.accelerators:
            lacking.append(
                f"a way from {NAMES[spec.accelerator]}, where this machine ran, "
                f"to {NAMES[accelerator]}: it is not portable"
            )
            continue
        try:
            driver.check(spec.under(accelerator))
        except MachineUnsupported as error:
            lacking += [one for one in error.lacking if one not in lacking]
        else:
            return spec.under(accelerator)
    raise MachineUnsupported(lacking, fix=_elsewhere(spec, wish))


def _elsewhere(spec: MachineSpec, wish: str) -> str:
    """What could run it."""
    if wish != AUTO:
        return f"let the service have the accelerator {AUTO}, or use another host"
    if spec.portable:
        return "use another host"
    return (
        f"use a host that runs it under {NAMES[spec.accelerator]}: its recipe says that it is "
        "not portable"
    )
