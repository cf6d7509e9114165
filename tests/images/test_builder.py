# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The builder, for real: what it makes, when it makes it again, what it leaves when it fails."""

import dataclasses
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from images import BuiltImage, ImageDamaged, ImageNotBuilt, Recipe, build, recipes
from images.builder import PRELOADS
from images.recipe import SHIPPED
from replay import agent_program
from satchel.errors import CapacityError, NotFoundError, SatchelError, UnsupportedError
from testbed.built import built_image, cache_folder
from tests.needs import requires

pytestmark = requires("mmdebstrap", "apt-get", "debugfs")


@pytest.fixture
def own(tmp_path: Path) -> Recipe:
    """The notes recipe as a copy that a test may change; its packages are those of the shipped."""
    for name in ("base", "notes"):
        shutil.copytree(SHIPPED / name, tmp_path / "recipes" / name)
    return Recipe.load(tmp_path / "recipes" / "notes")


def blocks(disk: Path) -> set[bytes]:
    """The different 4 KiB blocks of an image that are not zero; holes are not read."""
    found = set()
    with disk.open("rb") as file:
        size = disk.stat().st_size
        at = 0
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA) // 4096 * 4096
            except OSError:  # there is a hole up to the end
                break
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            for start in range(at, end, 4096):
                block = os.pread(file.fileno(), 4096, start)
                if block.strip(b"\0"):
                    found.add(block)
            at = end
    return found


@pytest.fixture
def scratch(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that no other run uses; Debian's parts run under other users."""
    short_path.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    return short_path


@pytest.mark.parametrize("name", [recipe.name for recipe in recipes()])
def test_an_image_is_a_clean_sparse_ext4_of_the_promised_size(name: str) -> None:
    image = built_image(name)
    assert image.disk.stat().st_size == image.recipe.disk_mib << 20 >= 1 << 30
    assert image.disk.stat().st_blocks * 512 < 300 << 20
    checked = subprocess.run(
        ["/sbin/e2fsck", "-fn", image.disk], check=False, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    assert image.files[1].read_bytes()[0x202:0x206] != bytes(4)
    assert image.files[2].read_bytes().startswith(b"070701")
    assert "init=/usr/bin/satchel-agent" in image.cmdline
    assert BuiltImage.load(image.disk.parent) == image


def test_images_of_one_base_share_most_of_their_blocks() -> None:
    notes, speech = (blocks(built_image(name).disk) for name in ("notes", "speech"))
    shared = len(notes & speech) / len(notes)
    print(f"notes {len(notes)} blocks, speech {len(speech)}, {shared:.1%} of notes are in speech")
    assert shared > 0.95


def test_a_second_build_takes_no_time_and_a_changed_file_no_network(
    tmp_path: Path, own: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_image("notes")
    folder, layers = tmp_path / "notes", cache_folder() / "layers"
    monkeypatch.setenv("PATH", "/usr/sbin:/sbin")
    first = build(own, folder, agent=agent_program(), layers=layers)
    made = first.disk.stat()
    assert build(own, folder, agent=agent_program(), layers=layers) == first
    assert first.disk.stat() == made, "it was built again"
    assert own.folder is not None
    (own.folder / "files/usr/lib/satchel/notes.py").write_text("raise SystemExit\n")
    second = build(own, folder, agent=agent_program(), layers=layers)
    assert second.key != first.key
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["image.json", *(path.name for path in second.files)]
    )


def test_building_again_gives_the_same_bytes(tmp_path: Path) -> None:
    image = built_image("notes")
    layers = cache_folder() / "layers"
    again = build(Recipe.find("notes"), tmp_path / "notes", agent=agent_program(), layers=layers)
    assert again.key == image.key
    assert subprocess.run(["cmp", image.disk, again.disk], check=False).returncode == 0


def test_another_agent_and_a_lost_file_are_reasons_to_build(tmp_path: Path, own: Recipe) -> None:
    built_image("notes")
    folder, layers, agent = tmp_path / "notes", cache_folder() / "layers", tmp_path / "agent"
    agent.write_bytes(b"one")
    for name in PRELOADS.values():
        (tmp_path / name).write_bytes(b"one")
    first = build(own, folder, agent=agent, layers=layers)
    agent.write_bytes(b"two")
    second = build(own, folder, agent=agent, layers=layers)
    assert second.key != first.key
    second.files[1].unlink()
    with pytest.raises(ImageDamaged, match="incomplete"):
        BuiltImage.load(folder)
    assert build(own, folder, agent=agent, layers=layers).files[1].is_file()


@pytest.mark.parametrize("step", [1, 5, 7])
def test_an_interrupt_leaves_nothing(tmp_path: Path, own: Recipe, scratch: Path, step: int) -> None:
    def progress(done: int, total: int) -> None:
        assert 0 <= done <= total
        if done == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(own, tmp_path / "i" / "notes", agent=agent_program(), progress=progress)
    left = [path.name for path in (tmp_path / "i").rglob("*") if path.is_file()]
    assert left == [".lock"]
    assert list(scratch.iterdir()) == []


def test_a_failed_build_keeps_the_old_image(
    tmp_path: Path, own: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_image("notes")
    folder, layers = tmp_path / "notes", cache_folder() / "layers"
    old = build(own, folder, agent=agent_program(), layers=layers)
    assert own.folder is not None
    (own.folder / "files" / "more").touch()
    broken = tmp_path / "bin" / "debugfs"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    with pytest.raises(SatchelError, match="debugfs failed"):
        build(own, folder, agent=agent_program(), layers=layers)
    assert BuiltImage.load(folder) == old
    assert not list(folder.glob(".build-*"))


def test_a_package_that_debian_does_not_have_is_named(tmp_path: Path, own: Recipe) -> None:
    built_image("notes")
    layers = tmp_path / "layers"
    layers.mkdir()
    for path in (cache_folder() / "layers").iterdir():
        if not path.name.startswith("."):
            (layers / path.name).symlink_to(path)
    wrong = dataclasses.replace(own, packages=("no-such-package-anywhere",))
    with pytest.raises(SatchelError, match="no-such-package-anywhere") as raised:
        build(wrong, tmp_path / "notes", agent=agent_program(), layers=layers)
    assert "mmdebstrap failed" in str(raised.value)
    assert not list((tmp_path / "notes").iterdir())


def test_a_host_without_mmdebstrap_is_told_so(
    tmp_path: Path, own: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("apt-get", "apt-config"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="install the Debian package mmdebstrap"):
        build(own, tmp_path / "notes", agent=agent_program())


def test_a_full_disk_is_said_before_anything_is_fetched(
    tmp_path: Path, own: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("images.builder.FREE_BYTES", 1 << 60)
    with pytest.raises(CapacityError, match="not enough space"):
        build(own, tmp_path / "notes", agent=agent_program())


def test_no_agent_no_image(tmp_path: Path, own: Recipe) -> None:
    with pytest.raises(NotFoundError, match="no guest agent"):
        build(own, tmp_path / "notes", agent=tmp_path / "nothing")


def test_a_folder_without_an_image_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(ImageNotBuilt, match="satchel-home image build notes"):
        BuiltImage.load(tmp_path / "notes")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"recipe": {"nonsense": 1}}'])
def test_a_damaged_description_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "image.json").write_text(text)
    with pytest.raises(ImageDamaged):
        BuiltImage.load(tmp_path)
