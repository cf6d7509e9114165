# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What an owner wishes of a service's machine, and what it becomes on the host that there is."""

import pytest

from homeserver.machine_options import MachineOptions, MachineOptionsInvalid
from hypervisor import MachineSpec, MachineUnsupported
from tests.homeserver.conftest import Bench
from tests.needs import requires

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


def machine_of(bench: Bench, name: str) -> MachineSpec:
    """Of its newest checkpoint."""
    latest = bench.home.service(name).shelf.latest()
    assert latest is not None
    return MachineSpec.from_json(latest.machine)


def test_who_speaks_of_fewer_services_counts_for_more(bench: Bench) -> None:
    """The recipe says 64 MiB and one processor; home.toml and `service add` say otherwise."""
    bench.reopen(vcpus=2, memory_mib=96)
    bench.home.add_service("as-home-says", "notes")
    bench.home.add_service("more", "notes", MachineOptions(vcpus=4))
    for name in ("as-home-says", "more"):
        bench.home.service(name).launch()
    specs = [machine_of(bench, name) for name in ("as-home-says", "more")]
    assert [(spec.vcpus, spec.memory_mib) for spec in specs] == [(2, 96), (4, 96)]
    assert all(spec.portable and spec.accelerator == "tcg" for spec in specs)


def test_a_service_goes_on_under_the_accelerator_that_there_is(bench: Bench) -> None:
    """Booted emulated, under KVM once the host has it, and emulated again where it is gone."""
    service = bench.running()
    for accelerators in (("kvm", "tcg"), ("tcg",)):
        service.stop()
        bench.driver.accelerators = accelerators
        service.launch()
        assert service.view().accelerator == accelerators[0]
        service.checkpoint()
        assert machine_of(bench, "notes").accelerator == accelerators[0]


def test_a_service_that_wants_kvm_is_not_emulated(bench: Bench) -> None:
    bench.home.add_service("fast", "notes", MachineOptions(accelerator="kvm"))
    fast = bench.home.service("fast")
    with pytest.raises(MachineUnsupported, match="kvm in this test"):
        fast.launch()
    assert "kvm in this test" in (fast.view().failure or "")
    bench.driver.accelerators = ("kvm", "tcg")
    fast.launch()
    assert machine_of(bench, "fast").accelerator == "kvm"


def test_a_home_that_is_told_to_emulate_does(bench: Bench) -> None:
    bench.reopen(accelerator="tcg")
    bench.driver.accelerators = ("kvm", "tcg")
    assert bench.running().view().accelerator == "tcg"


@pytest.mark.parametrize(
    "wish", [{"accelerator": "xen"}, {"vcpus": 17}, {"vcpus": -1}, {"memory_mib": 1}]
)
def test_what_cannot_be_wished_for(wish: dict[str, object]) -> None:
    with pytest.raises(MachineOptionsInvalid, match="cannot have that"):
        MachineOptions(**wish)  # type: ignore[arg-type]
