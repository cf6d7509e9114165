# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One machine with a KVM that works, in which the essentials run once in a run of the tests."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chunkstore import Store
from tests.homeserver.travelling import LEG, travel
from tests.hypervisor.guest import make_guest
from tests.hypervisor.handed import hand_first
from tests.hypervisor.site import QemuSite
from tests.kvm.machine import LEFT, Report, run_there
from tests.leftovers import SHORT_PREFIX
from tests.machines import NotesCheckpoint
from tests.replica.machine import asked, resumed
from tests.replica.notebook import notebook

OPERATIONS = 4
"""That `notes` answers here, and there with the same bytes. Without a processor of its own one
takes seconds there."""

ESSENTIALS = (
    "tests/hypervisor/under_kvm.py",
    "tests/hypervisor/test_contract.py::test_generations_of_checkpoint_and_resume[qemu]",
    "tests/hypervisor/test_ram.py::test_a_resumed_machine_reads_only_what_it_touches",
    "tests/hypervisor/test_ram.py::test_no_huge_page_is_advised",
    "tests/hypervisor/test_ram.py::test_read_ahead_is_what_was_asked_for",
)


@dataclass(frozen=True)
class UnderKvm:
    """report: of the essentials; left: the folder in which they left machines."""

    report: Report
    left: Path


@dataclass(frozen=True)
class NeverMoved:
    """answers: to its operations, of one machine that stays where it is; said: what `travel` gives
    after the last of them."""

    answers: list[str]
    said: tuple[str, str]


@pytest.fixture(scope="session")
def under_kvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnderKvm]:
    handed = tmp_path_factory.mktemp("handed")
    _hand_guest(handed / "tcg")
    report = run_there(ESSENTIALS, handed)
    print(report.said)
    yield UnderKvm(report, handed / LEFT)
    shutil.rmtree(handed)


@pytest.fixture
def handed_notes(notes_checkpoint: NotesCheckpoint, tmp_path: Path) -> Path:
    """A folder with what tests/surrogate/under_kvm.py is handed."""
    _hand_notes(notes_checkpoint, tmp_path)
    return tmp_path


@pytest.fixture
def never_moved(notes_checkpoint: NotesCheckpoint, tmp_path: Path, short_path: Path) -> NeverMoved:
    """What `notes` answers where it stays on one emulated machine."""
    numbers = range(1, 3 * LEG + 1)
    state = list(notes_checkpoint.manifest.contract.state)
    with (
        Store.open(notes_checkpoint.copy_store(tmp_path / "stays")) as store,
        resumed(notes_checkpoint, store, short_path / "c") as replica,
    ):
        answers = [replica.execute(notebook(number)).payload.hex() for number in numbers]
        said = asked(replica)
        return NeverMoved(answers, (replica.digest(state), said))


@pytest.fixture
def handed_home(
    notes_checkpoint: NotesCheckpoint, never_moved: NeverMoved, tmp_path: Path, short_path: Path
) -> Path:
    """A folder with what tests/homeserver/under_kvm.py is handed."""
    handed = tmp_path / "handed"
    handed.mkdir()
    home = notes_checkpoint.copy_home(short_path / "h")
    travel(home.data, home.run, "tcg", never_moved.answers)
    shutil.move(home.data, handed / "home")
    (handed / "answers").write_text(json.dumps(never_moved.answers))
    return handed


def _hand_guest(handed: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    site = QemuSite(folder, None)
    try:
        hand_first(site, site.start(make_guest()), handed, "emulated")
    finally:
        site.close()
        shutil.rmtree(folder)


def _hand_notes(notes: NotesCheckpoint, handed: Path) -> None:
    """A home's store, a checkpoint in it, and what its machine answers here."""
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    try:
        with (
            Store.open(notes.copy_store(folder / "store")) as store,
            resumed(notes, store, folder / "r") as replica,
        ):
            answers = [replica.execute(notebook(n)).payload.hex() for n in range(1, OPERATIONS + 1)]
    finally:
        shutil.rmtree(folder)
    notes.copy_store(handed / "store")
    (handed / "manifest").write_bytes(notes.manifest.to_bytes())
    (handed / "answers").write_text(json.dumps(answers))
