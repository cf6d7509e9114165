# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A home on a host whose KVM works; tests/kvm has it run there. A service boots under KVM because
KVM is there, portable or not, and its clock is the one that its machine can have.

A service that was emulated goes on under KVM. SATCHEL_HANDED has `home`, that home's folder, and
`answers`, those of a machine that has never moved. `left/home` is left to the host beside, and
`left/booted`, that of the portable service which booted here.
"""

import dataclasses
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from homeserver import Home, HomeSettings
from hypervisor import MachineSpec, QemuDriver
from testbed.built import built_image, cache_folder
from tests.homeserver.travelling import travel
from tests.replica.machine import asked
from tests.replica.notebook import notebook

pytestmark = [pytest.mark.kvm, pytest.mark.machine]

HANDED = Path(os.environ["SATCHEL_HANDED"])

CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

OPERATIONS = 10

READS = """
import time
began = time.perf_counter()
for _ in range(20000):
    time.time_ns()
print((time.perf_counter() - began) / 20000 * 1e6)
"""


def image_like_notes(images: Path, *, portable: bool) -> None:
    """An image `notes` whose recipe says that."""
    built = built_image("notes")
    folder = images / "notes"
    folder.mkdir(parents=True)
    for path in built.files:
        (folder / path.name).symlink_to(path)
    value = json.loads((cache_folder() / "notes" / "image.json").read_text())
    value["recipe"] = dataclasses.replace(built.recipe, portable=portable).to_json()
    (folder / "image.json").write_text(json.dumps(value))


@pytest.mark.parametrize("portable", [True, False])
def test_a_service_boots_under_kvm_with_the_clock_that_its_machine_can_have(
    short_path: Path, portable: bool
) -> None:
    image_like_notes(short_path / "images", portable=portable)
    settings = HomeSettings(
        data=short_path / "data",
        run=short_path / "run",
        images=short_path / "images",
        settle=False,
        boot_seconds=1200.0,  # where KVM itself is emulated
    )
    Home.init(settings)
    home = Home(settings, QemuDriver())
    try:
        home.add_service("notes", "notes")
        service = home.service("notes")
        began = time.monotonic()
        service.launch()
        print(f"portable {portable}: a first boot takes {time.monotonic() - began:.0f} s")
        assert service.view().accelerator == "kvm"
        for _ in range(2):  # as it booted, and as it goes on from its checkpoint
            status, said = service.replica().run(["/bin/cat", CLOCK], 120.0)
            assert (status, said) == (0, b"hpet\n" if portable else b"kvm-clock\n")
            status, said = service.replica().run(["/usr/bin/python3", "-c", READS], 120.0)
            print(f"portable {portable}: a look at the clock takes {float(said):.2f} us")
            service.stop()
            service.launch()
        operations = [notebook(number) for number in range(1, OPERATIONS + 1)]
        began = time.monotonic()
        assert len(list(service.answer(operations))) == OPERATIONS
        seconds = (time.monotonic() - began) / OPERATIONS
        print(f"portable {portable}: an operation takes {seconds:.2f} s")
        assert asked(service.replica()).startswith(f"{operations[-1].time_ns} ")
        spec = MachineSpec.from_json(service.checkpoint().manifest.machine)
        assert (spec.accelerator, spec.portable) == ("kvm", portable)
    finally:
        home.close()
    if portable:
        shutil.copytree(settings.data, HANDED / "left" / "booted", symlinks=True)
    shutil.rmtree(settings.data)


def test_a_home_that_emulated_goes_on_and_is_handed_back(short_path: Path) -> None:
    data, answers = short_path / "data", json.loads((HANDED / "answers").read_text())
    shutil.copytree(HANDED / "home", data, symlinks=True)
    travel(data, short_path / "run", "kvm", answers)
    shutil.copytree(data, HANDED / "left" / "home", symlinks=True)
