# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What an owner wishes a service's machine to be, where it is said, and what counts.

Whoever speaks of fewer services counts for more: `service add` speaks of one, `home.toml` of all
services of a home, and a recipe of all homes.
"""

from __future__ import annotations

from dataclasses import dataclass

from satchel.errors import UsageError


class MachineOptionsInvalid(UsageError, ValueError):
    """The requested machine is not possible."""


@dataclass(frozen=True)
class MachineOptions:
    """accelerator: auto, kvm, tcg, or empty; vcpus, memory_mib: 0 as well where nothing is said.
    Raises MachineOptionsInvalid."""

    accelerator: str = ""
    vcpus: int = 0
    memory_mib: int = 0

    def __post_init__(self) -> None:
        if any((self.accelerator, self.vcpus, self.memory_mib)):
            self._check()

    def over(self, other: MachineOptions) -> MachineOptions:
        """This one, and the other where this one says nothing."""
        return MachineOptions(
            self.accelerator or other.accelerator,
            self.vcpus or other.vcpus,
            self.memory_mib or other.memory_mib,
        )

    def _check(self) -> None:
        from hypervisor import WISHES  # most commands get by without them
        from images import MEMORY_MIB, VCPUS

        if self.accelerator and self.accelerator not in WISHES:
            why = f"{self.accelerator[:40]!r} is none of {', '.join(WISHES)}"
            raise MachineOptionsInvalid("cannot have that accelerator", why=why)
        for what, value, (low, high) in (
            ("number of vcpus", self.vcpus, VCPUS),
            ("memory in MiB", self.memory_mib, MEMORY_MIB),
        ):
            if value and not low <= value <= high:
                why = f"{value} is not between {low} and {high}"
                raise MachineOptionsInvalid(f"cannot have that {what}", why=why)


ANYTHING = MachineOptions()
"""Nothing is said."""
