# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A real machine that tests of all parts share: `notes`, booted once in a run and checkpointed.

A boot takes 20 s under emulation and a resume 0.3 s, so whoever needs a machine resumes this one,
in a scratch copy of its store or of its whole home. Where a boot takes too long, as it does under
an emulated KVM, it is handed on by the host beside: tests/kvm.
"""

import dataclasses
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from homeserver import Home, HomeSettings
from hypervisor import MachineSpec, QemuDriver
from images import BuiltImage, Manifest
from replica import MachineSnapshot
from testbed.built import built_image, cache_folder
from tests.leftovers import SHORT_PREFIX

MACHINE = ("qemu-system-x86_64", "nbdkit", "nbdfuse", "fuse", "mmdebstrap", "userns", "bwrap")
"""What a test with this machine needs: `requires(*MACHINE)`."""

HANDED = "SATCHEL_TEST_NOTES"
"""The variable that names the folder with the machine, where it was handed on."""

ACCELERATOR = os.environ.get("SATCHEL_TEST_ACCELERATOR")
"""What it is to run under, if not what it booted under."""

START_SECONDS = 900.0 if ACCELERATOR == "kvm" else 60.0
"""An end for a test whose machine never starts. Where tests ask for KVM, it is itself emulated."""


@dataclass(frozen=True)
class NotesCheckpoint:
    """A home at rest whose service `notes` has one checkpoint, at operation 0.

    home: its settings. Nobody may open it: take a scratch copy. signature: of the manifest, by
    the owner of `home`, and so by the owner of every scratch copy of it.
    """

    image: BuiltImage
    home: HomeSettings
    manifest: Manifest
    signature: bytes

    @property
    def store(self) -> Path:
        return self.home.store

    @property
    def spec(self) -> MachineSpec:
        """As it runs here."""
        spec = MachineSpec.from_json(self.manifest.machine)
        return spec.under(ACCELERATOR) if ACCELERATOR else spec

    @property
    def frozen(self) -> MachineSnapshot:
        manifest = self.manifest
        return MachineSnapshot(manifest.operation, manifest.device_state, manifest.volumes, 0.0)

    def copy_store(self, path: Path) -> Path:
        """A copy of the store at `path`, which must not exist."""
        return _copy(self.store, path)

    def copy_home(self, folder: Path) -> HomeSettings:
        """The settings of a copy of the home below `folder`, whose path must be short."""
        _copy(self.home.data, folder / "data")
        return dataclasses.replace(self.home, data=folder / "data", run=folder / "run")

    def hand_on(self, folder: Path) -> None:
        """Leave it in that folder, where `_handed` finds it. The signature is the last file."""
        if self.home.data != folder / "data":
            _copy(self.home.data, folder / "data")
        (folder / "manifest").write_bytes(self.manifest.to_bytes())
        (folder / "signature").write_bytes(self.signature)


@pytest.fixture(scope="session")
def notes_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotesCheckpoint]:
    """The machine. The first worker that asks for it makes it for all workers of the run."""
    image = built_image("notes")
    if HANDED in os.environ:
        yield _handed(Path(os.environ[HANDED]), image)
        return
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "notes"
    with (shared / "notes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "signature").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _boot(folder / "data").hand_on(folder)
    yield _handed(folder, image)


def _boot(data: Path) -> NotesCheckpoint:
    """Make a home with its first checkpoint."""
    run = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    settings = HomeSettings(data=data, run=run, images=cache_folder())
    Home.init(settings)
    home = Home(settings, QemuDriver())
    try:
        home.add_service("notes", "notes")
        service = home.service("notes")
        service.launch()
        manifest = service.shelf.latest()
        assert manifest is not None
        signature = service.shelf.signature(manifest.id)
    finally:
        home.close()
        shutil.rmtree(run)
    return NotesCheckpoint(built_image("notes"), settings, manifest, signature)


def _handed(folder: Path, image: BuiltImage) -> NotesCheckpoint:
    data = folder / "data"
    settings = HomeSettings(data=data, run=data / "run", images=cache_folder())
    manifest = Manifest.from_bytes((folder / "manifest").read_bytes())
    return NotesCheckpoint(image, settings, manifest, (folder / "signature").read_bytes())


def _copy(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)
    return target
