# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A whole disk as an image: copied as it is, beside the disk that has the agent for it.

The disk is a stranger's. Programs that read its format or its file systems (qemu-img, debugfs) run
in a cell, where there are cells. Nothing is written to it: the agent comes with the first boot, by
a second disk with the label `cidata`, which is where cloud-init looks (its data source NoCloud).
systemd keeps the agent alive, and the agent starts nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from images.built import BuiltImage, ImageDamaged, ImageNotBuilt, remove_others, write_manifest
from images.filesystem import copy_sparse
from images.partitions import DiskLayout, read_layout
from images.raw import unpack, virtual_size
from images.recipe import DISK_MIB, Recipe
from sandbox import CellMounts, Cells
from satchel.confinement import HOST, Confinement
from satchel.errors import NotFoundError, UnsupportedError, UsageError
from satchel.files import sync_folder
from satchel.ids import BLOCK_SIZE

DISK_VERSION = 1
"""Raised when the same disk and recipe give another image."""

USER_DATA_LIMIT = 1 << 20
CLOUD_INIT = ("/usr/bin/cloud-init", "/usr/local/bin/cloud-init")

_READING_BYTES = 256 << 20
_READABLE = 0o004

_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_UNIT = f"""\
[Unit]
Description=Satchel's agent
StartLimitIntervalSec=0
[Service]
# The clock that belongs to the machine, and stands still in a checkpoint.
ExecStartPre=-/bin/sh -c 'echo hpet >{_CLOCK}'
ExecStart=/usr/local/sbin/satchel-agent --unit
StandardError=journal+console
Restart=always
RestartSec=1
OOMScoreAdjust=-900
[Install]
WantedBy=multi-user.target
"""

_HOOK = """\
#cloud-boothook
#!/bin/sh
# Puts Satchel's agent where it stays, and has systemd keep it alive.
set -e
from=$(mktemp -d)
mount -o ro -L cidata "$from"
mkdir -p /etc/satchel /usr/local/sbin
install -m 755 "$from/satchel-agent" /usr/local/sbin/satchel-agent
install -m 644 "$from/service" /etc/satchel/service
install -m 644 "$from/satchel-agent.service" /etc/systemd/system/satchel-agent.service
umount "$from"
systemctl daemon-reload
systemctl enable satchel-agent.service
systemctl start --no-block satchel-agent.service
"""


class DiskRefused(UnsupportedError):
    """The whole disk cannot become a service; why gives the reason."""


def build_disk(recipe: Recipe, folder: Path, *, agent: Path, cells: Cells | None) -> BuiltImage:
    """The image of the whole disk that `recipe` names in `folder`, unless it is up to date.

    agent: what is put on the agent disk. Raises what reading a disk image raises (images.raw), and
    DiskRefused, NotFoundError, UsageError, UnsupportedError without genisoimage. After an error the
    old image is there, and nothing else.
    """
    source = _beside(recipe, recipe.disk)
    key = _key(recipe, source, agent)
    try:
        old = BuiltImage.load(folder)
        if old.key == key:
            return old
    except (ImageNotBuilt, ImageDamaged):
        pass
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as name:
        scratch = Path(name)
        disk = scratch / "disk"
        with _reading(source, disk, cells) as room:
            layout = _layout(disk)
            firmware = _firmware(recipe, layout)
            _require_cloud_init(recipe, disk, layout, room)
        _grow(disk, recipe.disk_mib)
        agent_disk = _agent_disk(recipe, key, agent, scratch)
        image = BuiltImage(
            recipe=recipe,
            disk=folder / f"disk-{key[:12]}",
            key=key,
            firmware=firmware,
            agent_disk=folder / f"agent-{key[:12]}",
        )
        os.chown(disk, os.geteuid(), os.getegid())
        for path, place in ((disk, image.disk), (agent_disk, image.agent_disk)):
            path.chmod(0o600)  # keys and passwords may be in it
            assert place
            path.replace(place)
    sync_folder(folder)
    write_manifest(folder, image)
    remove_others(folder, image)
    return BuiltImage.load(folder)


def _beside(recipe: Recipe, path: str) -> Path:
    found = (recipe.folder or Path()) / path
    if not found.is_file():
        raise NotFoundError(f"no disk image {found}", why="the recipe names it")
    return found.resolve()


def _key(recipe: Recipe, source: Path, agent: Path) -> str:
    parts = [f"disk {DISK_VERSION}", recipe.content_key(), _UNIT, _HOOK]
    named = [source, agent]
    named += [_beside(recipe, recipe.user_data)] if recipe.user_data else []
    for path in named:
        with path.open("rb") as file:
            parts.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@contextmanager
def _reading(source: Path, disk: Path, cells: Cells | None) -> Iterator[Confinement]:
    """Fills `disk` with the content of `source`, raw; gives the room in which it may be read."""
    size = virtual_size(source)
    if size is None:
        copy_sparse(source, disk)
    else:
        with disk.open("xb") as file:
            file.truncate(size)
    volumes = [disk]
    if size is not None and not source.stat().st_mode & _READABLE:
        source = Path(shutil.copyfile(source, disk.with_name("source")))
        volumes.append(source)  # nobody but us may read the other one
    room: Confinement = HOST
    if cells is not None:
        seen = CellMounts(disk.parent, readable=[source], volumes=volumes)
        room = cells.room(seen, memory=_READING_BYTES, processors=1, kvm=False)
    try:
        if size is not None:
            unpack(source, disk, room.run)
        yield room
    finally:
        room.end()


def _layout(disk: Path) -> DiskLayout:
    with disk.open("rb") as file:
        layout = read_layout(file)
    if not layout.partitions:
        raise DiskRefused(
            "this is not a whole disk",
            why=f"{layout.lack}, so no firmware can start it",
            fix="name the image of a disk with a boot loader and sectors of 512 bytes, such as a "
            "cloud image",
        )
    return layout


def _firmware(recipe: Recipe, layout: DiskLayout) -> str:
    able = [n for n, has in (("bios", layout.bios), ("uefi", layout.uefi)) if has]
    wanted = able if recipe.firmware == "auto" else [recipe.firmware]
    if not wanted or wanted[0] not in able:
        lacks = {
            "bios": "its first sector has no code, which a BIOS would run",
            "uefi": "it has no EFI system partition",
        }
        why = " and ".join(lacks[name] for name in wanted or lacks)
        raise DiskRefused("nothing starts this disk", why=why, fix="install a boot loader on it")
    return wanted[0]


def _require_cloud_init(recipe: Recipe, disk: Path, layout: DiskLayout, room: Confinement) -> None:
    """Refuse a disk of which is known that the agent cannot get into it. What is on file systems
    that cannot be looked into shows at the first boot."""
    contents = {partition.content for partition in layout.partitions} - {""}
    if contents == {"ext"}:
        starts = [p.start for p in layout.partitions if p.content == "ext"]
        if any(_has(disk, at, path, room) for at in starts for path in CLOUD_INIT):
            return
        why = "it has no cloud-init, by which Satchel's agent gets into a disk"
    elif contents:
        return
    else:
        why = "it has no file system of Linux"
    raise DiskRefused(
        f"the disk of {recipe.name} cannot be carried",
        why=why,
        fix="install cloud-init on it, or build a service from a recipe with packages",
    )


def _has(disk: Path, start: int, path: str, room: Confinement) -> bool:
    """Whether there is such a file, or link, on the ext file system that begins there."""
    tool = shutil.which("debugfs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if tool is None:
        raise UnsupportedError("no debugfs on this host", fix="install the package e2fsprogs")
    done = room.run([tool, "-R", f"stat {path}", f"{disk}?offset={start}"])
    return "Inode:" in done.stdout


def _grow(disk: Path, least_mib: int) -> None:
    """A disk has whole blocks, and is as large as the recipe says, or larger."""
    size = max(disk.stat().st_size, least_mib << 20)
    if size > DISK_MIB[1] << 20:
        raise DiskRefused("the disk is too large", why=f"it has {size >> 20} MiB")
    os.truncate(disk, -(-size // BLOCK_SIZE) * BLOCK_SIZE)


def _agent_disk(recipe: Recipe, key: str, agent: Path, scratch: Path) -> Path:
    """The second disk, an ISO 9660 file system with the label by which cloud-init knows it."""
    folder, made = scratch / "agent.d", scratch / "agent"
    folder.mkdir()
    files = {
        "meta-data": f"instance-id: satchel-{key[:12]}\nlocal-hostname: {recipe.name}\n",
        "network-config": "config: disabled\n",
        "user-data": _user_data(recipe),
        "vendor-data": _HOOK,
        "service": recipe.service_file(),
        "satchel-agent.service": _UNIT,
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copyfile(agent, folder / "satchel-agent")
    argv = ["genisoimage", "-quiet", "-volid", "cidata", "-joliet", "-rock"]
    try:
        subprocess.run(
            [*argv, "-output", str(made), str(folder)], check=True, capture_output=True, text=True
        )
    except FileNotFoundError as error:
        fix = "install the Debian package genisoimage"
        raise UnsupportedError("no genisoimage on this host", fix=fix) from error
    except subprocess.CalledProcessError as error:
        raise DiskRefused(
            "cannot make the agent's disk", why=error.stderr.strip()[-300:]
        ) from error
    os.truncate(made, -(-made.stat().st_size // BLOCK_SIZE) * BLOCK_SIZE)
    return made


def _user_data(recipe: Recipe) -> str:
    if not recipe.user_data:
        return "#cloud-config\n{}\n"
    path = _beside(recipe, recipe.user_data)
    if path.stat().st_size > USER_DATA_LIMIT:
        raise UsageError(f"{path} is too large", why=f"it has more than {USER_DATA_LIMIT} bytes")
    return path.read_text(encoding="utf-8")
