# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Homes with a scripted guest, whose volumes and RAM mounts are real, and homes with real ones."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from homeserver import Home, HomeSettings, Service
from hypervisor import FakeDriver, FakeMachine, MachineState
from images import Recipe
from tests.homeserver.program import Program
from tests.scripted import scripted_driver

DISK = random.Random(1).randbytes(256 << 10)


def make_image(folder: Path, name: str, *, stateful: bool = True) -> None:
    """A folder like a built image's, of a machine that the fake driver can run."""
    recipe = Recipe(
        name=name,
        title="A scripted guest",
        command="exec /bin/true",
        port=8080,
        memory_mib=64,
        disk_mib=1024,
        adapter_kind="http",
        contract="replay",
        stateful=stateful,
        state=("/state",),
    )
    image = folder / name
    image.mkdir(parents=True)
    (image / "disk").write_bytes(DISK)
    for part in ("kernel", "initrd"):
        (image / part).write_bytes(part.encode())
    value = {
        "recipe": recipe.to_json(),
        "disk": "disk",
        "kernel": "kernel",
        "initrd": "initrd",
        "cmdline": "",
        "key": "0" * 64,
    }
    (image / "image.json").write_text(json.dumps(value))


class Bench:
    """A home whose machines are scripted, which can be closed and opened again."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.settings = HomeSettings(
            data=folder / "data", run=folder / "run", images=folder / "images", **settings
        )
        self.driver: FakeDriver = scripted_driver()
        make_image(self.settings.images, "notes")
        make_image(self.settings.images, "speech", stateful=False)
        Home.init(self.settings)
        self.home = Home(self.settings, self.driver)

    def service(self, name: str = "notes") -> Service:
        """It is added when it is asked for first."""
        if name not in [service.name for service in self.home.services()]:
            self.home.add_service(name, name)
        return self.home.service(name)

    def running(self, name: str = "notes") -> Service:
        service = self.service(name)
        service.launch()
        return service

    def reopen(self, **settings: Any) -> None:
        self.home.close()
        self.settings = replace(self.settings, **settings)
        self.home = Home(self.settings, self.driver)

    def machine(self) -> FakeMachine:
        """The one that was started last of those that run."""
        return [m for m in self.driver.machines if m.state is MachineState.RUNNING][-1]

    def left(self) -> list[str]:
        """Folders of running replicas."""
        return sorted(path.name for path in (self.settings.run / "r").glob("*"))


def program_of(bench: Bench, folder: Path, line: str = "", **variables: str) -> Program:
    """Of the bench's home, with a configuration in that folder. line: more of it"""
    bench.settings.run.mkdir(exist_ok=True, mode=0o700)
    config = folder / "config" / "satchel"
    config.mkdir(parents=True)
    folders = {"data": bench.settings.data, "run": bench.settings.run}
    text = "".join(f'{k} = "{v}"\n' for k, v in folders.items())
    (config / "home.toml").write_text(text + line)
    return Program(folder, **variables)


@pytest.fixture
def bench(short_path: Path) -> Iterator[Bench]:
    made = Bench(short_path)
    yield made
    made.home.close()
    assert made.left() == []
