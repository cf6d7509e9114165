# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A built image on this host: the files in its folder, and image.json, which names them.

docs/formats/image.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypervisor import FIRMWARES, Boot, MachineSpec
from images.recipe import Recipe
from satchel.errors import IntegrityError, NotFoundError, UsageError
from satchel.files import write_durably

TRAVELLING_CLOCK = "clocksource=hpet tsc=unstable"
"""What a machine has on its kernel's command line too that may go on where the time stamp counter
runs at another speed: one that is emulated, or that is portable."""

KERNEL_VERSION, DISK_VERSION = 1, 2
"""Of image.json: of an image that starts with a kernel, and of one that starts from its disk."""

MANIFEST = "image.json"
_PARTS = ("disk-", "vmlinuz-", "initrd-", "agent-")


class ImageNotBuilt(NotFoundError):
    """The folder contains no image."""


class ImageDamaged(IntegrityError):
    """The folder of an image lacks files of a build or has damaged ones."""


@dataclass(frozen=True)
class BuiltImage:
    """A complete image on this host.

    disk: a raw file, sparse; the whole of /dev/vda: an ext4 file system, or a whole disk with its
    partitions. kernel, initrd, cmdline: for the first boot. firmware: what starts a whole disk,
    which has no kernel here, in the words of MachineSpec. agent_disk: of a whole one, /dev/vdb,
    from which its cloud-init takes the agent. key: what it was built from, 64 hex digits.
    """

    recipe: Recipe
    disk: Path
    key: str
    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""
    firmware: str = ""
    agent_disk: Path | None = None

    @property
    def files(self) -> list[Path]:
        """All that it consists of, beside its description."""
        return [path for path in (self.disk, self.kernel, self.initrd, self.agent_disk) if path]

    def boot(self, spec: MachineSpec) -> Boot:
        """What that machine is started with."""
        if self.firmware:
            return Boot()
        travels = spec.portable or spec.accelerator == "tcg"
        words = (self.cmdline, TRAVELLING_CLOCK) if travels else (self.cmdline,)
        return Boot(self.kernel, self.initrd, " ".join(words))

    @classmethod
    def load(cls, folder: Path) -> BuiltImage:
        """The image that `build` left in `folder`. Raises ImageNotBuilt, ImageDamaged."""
        try:
            value: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            image = cls(
                recipe=Recipe.from_json(value["recipe"]),
                disk=folder / str(value["disk"]),
                key=str(value["key"]),
                **_started(folder, value),
            )
        except FileNotFoundError as error:
            fix = f"`satchel-home image build {folder.name}` builds it"
            raise ImageNotBuilt(f"no image in {folder}", fix=fix) from error
        except (ValueError, KeyError, TypeError, UsageError) as error:
            raise ImageDamaged(f"cannot read {folder / MANIFEST}", why=str(error)) from error
        for path in image.files:
            if not path.is_file():
                raise ImageDamaged(f"the image in {folder} is incomplete", why=f"no {path.name}")
        return image


def _started(folder: Path, value: dict[str, Any]) -> dict[str, Any]:
    """How it starts. Raises ValueError, KeyError."""
    version = value.get("version", KERNEL_VERSION)
    if version == KERNEL_VERSION:
        files = {name: folder / str(value[name]) for name in ("kernel", "initrd")}
        return {**files, "cmdline": str(value["cmdline"])}
    if version != DISK_VERSION or value["firmware"] not in FIRMWARES:
        raise ValueError("its version or its firmware is not known")
    return {"firmware": str(value["firmware"]), "agent_disk": folder / str(value["agent_disk"])}


def write_manifest(folder: Path, image: BuiltImage) -> None:
    """Say that `folder` has that image, complete; durable on return."""
    write_durably(folder / MANIFEST, _manifest(image))


def remove_others(folder: Path, image: BuiltImage) -> None:
    """Remove what earlier builds left beside that image."""
    kept = {path.name for path in image.files}
    for path in folder.iterdir():
        if path.name not in kept and path.name.startswith(_PARTS):
            path.unlink()


def _manifest(image: BuiltImage) -> bytes:
    said = {"key": image.key, "recipe": image.recipe.to_json(), "disk": image.disk.name}
    if image.kernel and image.initrd:
        named = {"kernel": image.kernel.name, "initrd": image.initrd.name}
        value = {"version": KERNEL_VERSION, **said, **named, "cmdline": image.cmdline}
    else:
        assert image.agent_disk
        started = {"agent_disk": image.agent_disk.name, "firmware": image.firmware}
        value = {"version": DISK_VERSION, **said, **started}
    return (json.dumps(value, indent=2) + "\n").encode()
