# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Under a real KVM: that it is found, that machines boot, freeze and resume lazily, that they go to
emulation and back, and that a surrogate runs a service without being told to."""

from pathlib import Path

import pytest

from tests.homeserver.travelling import travel
from tests.hypervisor.handed import Traveller
from tests.kvm.conftest import NeverMoved, UnderKvm
from tests.kvm.machine import LEFT, run_there
from tests.machines import MACHINE
from tests.needs import requires

pytestmark = [
    pytest.mark.kvm,
    pytest.mark.machine,
    pytest.mark.timeout(3600),
    requires("root", "busybox", "apt-get", *MACHINE),
]


@pytest.mark.parametrize(
    "name",
    [
        "test_the_probe_finds_a_kvm_that_runs_guests",
        "test_a_machine_that_booted_here_is_handed_on",
        "test_an_emulated_machine_goes_on_here_and_is_handed_back",
        "test_generations_of_checkpoint_and_resume[qemu]",
        "test_a_resumed_machine_reads_only_what_it_touches",
        "test_no_huge_page_is_advised",
        "test_read_ahead_is_what_was_asked_for[0-4-4]",
        "test_read_ahead_is_what_was_asked_for[128-64-128]",
    ],
)
def test_there(under_kvm: UnderKvm, name: str) -> None:
    under_kvm.report.require(name)


@pytest.mark.parametrize("handed", ["booted", "kvm"])
def test_a_machine_that_ran_under_kvm_goes_on_under_emulation(
    under_kvm: UnderKvm, short_path: Path, handed: str
) -> None:
    traveller = Traveller(under_kvm.left / handed, short_path)
    try:
        traveller.hand_on(short_path / "again", "emulated again")
    finally:
        traveller.close()


@pytest.mark.nightly
def test_a_surrogate_as_it_comes_runs_a_service_there(handed_notes: Path) -> None:
    report = run_there(["tests/surrogate/under_kvm.py"], handed_notes, "-s", seconds=1500)
    report.require("test_a_surrogate_as_it_comes_runs_a_service_that_was_emulated")


@pytest.mark.nightly
def test_a_home_goes_from_emulation_to_kvm_and_back_as_if_it_had_stayed(
    handed_home: Path, never_moved: NeverMoved, short_path: Path
) -> None:
    """Answers, time, randomness and files are those of a machine that was emulated all the time."""
    test = "test_a_home_that_emulated_goes_on_and_is_handed_back"
    file = "tests/homeserver/under_kvm.py"
    run_there([f"{file}::{test}"], handed_home, "-s", seconds=1500).require(test)
    said = travel(handed_home / LEFT / "home", short_path / "r", "tcg", never_moved.answers)
    assert said == never_moved.said
