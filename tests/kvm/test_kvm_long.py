# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What every machine promises, asked of machines under KVM: the whole contract, ten generations,
determinism, a hand-over between surrogates, and a home whose services boot under KVM and go on
under emulation."""

from pathlib import Path

import pytest

from tests.homeserver.travelling import travel
from tests.kvm.conftest import NeverMoved
from tests.kvm.machine import LEFT, run_there
from tests.machines import MACHINE, NotesCheckpoint
from tests.needs import requires

TEST_SECONDS = 1500
"""For one test there: a service boots in minutes there."""

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kvm,
    pytest.mark.machine,
    pytest.mark.timeout(10 * TEST_SECONDS),
    requires("root", "busybox", "apt-get", *MACHINE),
]


@pytest.mark.parametrize(
    "files",
    [
        ("tests/hypervisor/test_contract.py", "tests/hypervisor/test_ram.py"),
        ("tests/hypervisor/test_qemu.py",),
        ("tests/replica/test_generations.py",),
        ("tests/replica/test_determinism.py",),
        ("tests/surrogate/test_machine.py", "tests/surrogate/test_handover.py"),
    ],
    ids=lambda files: Path(files[0]).stem,
)
def test_all_of_it_there(
    files: tuple[str, ...], notes_checkpoint: NotesCheckpoint, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes_checkpoint.hand_on(notes)
    report = run_there(files, tmp_path, "-s", seconds=TEST_SECONDS, notes=notes)
    print(report.said)
    assert report.failures
    wrong = {name: failure for name, failure in report.failures.items() if failure}
    assert not wrong, f"{wrong}\n{report.said[-6000:]}"


def test_a_service_boots_there_and_goes_on_under_emulation(
    never_moved: NeverMoved, tmp_path: Path, short_path: Path
) -> None:
    """With each clock; the portable one answers here what a machine answers that never moved."""
    test = "test_a_service_boots_under_kvm_with_the_clock_that_its_machine_can_have"
    report = run_there(
        [f"tests/homeserver/under_kvm.py::{test}"], tmp_path, "-s", seconds=TEST_SECONDS
    )
    print(report.said)
    for portable in (True, False):
        report.require(f"{test}[{portable}]")
    travel(tmp_path / LEFT / "booted", short_path / "r", "tcg", never_moved.answers)
