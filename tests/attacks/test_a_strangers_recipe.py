# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The author of a recipe wants a file of the person who builds it in the image, where the service
reads it."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from images import build, target
from replay import agent_program
from satchel.errors import SatchelError
from testbed.built import built_image, cache_folder
from tests.images.oci import LayerTar, oci_image, web_image
from tests.images.small_disk import small_disk
from tests.needs import requires

SECRET = b"-----BEGIN OPENSSH PRIVATE KEY----- of the builder\n" * 40
COMMAND = 'container = "oci:oci:app"\ncommand = "exec sleep 1000"\n'


class Stranger:
    """A recipe named `gift`, as its author hands it out, and the builder's home beside it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.key = self.home / "id_ed25519"
        self.key.write_bytes(SECRET)
        self.recipe = folder / "recipes" / "gift"
        self.files = self.recipe / "files"
        self.files.mkdir(parents=True)

    def says(self, text: str) -> None:
        (self.recipe / "recipe.toml").write_text(f'name = "gift"\n{text}')


def a_link(stranger: Stranger) -> None:
    (stranger.files / "page").symlink_to(stranger.key)
    stranger.says(COMMAND)


def a_relative_link(stranger: Stranger) -> None:
    (stranger.files / "srv").mkdir()
    (stranger.files / "srv" / "page").symlink_to("../../../../home/id_ed25519")
    stranger.says(COMMAND)


def a_link_by_another(stranger: Stranger) -> None:
    (stranger.recipe / "out").symlink_to(stranger.home)
    (stranger.files / "page").symlink_to("../out/id_ed25519")
    stranger.says(COMMAND)


def all_of_it(stranger: Stranger) -> None:
    stranger.files.rmdir()
    stranger.files.symlink_to(stranger.home)
    stranger.says(COMMAND)


def a_base(stranger: Stranger) -> None:
    """The recipe that it extends is the builder's folder; packages are of no matter here."""
    (stranger.recipe.parent / "other").mkdir()
    (stranger.recipe.parent / "other" / "recipe.toml").write_text('name = "other"\n')
    (stranger.recipe.parent / "other" / "files").symlink_to(stranger.home)
    stranger.says('extends = "other"\ncommand = "exec sleep 1000"\n')


def user_data(stranger: Stranger) -> None:
    small_disk(stranger.recipe / "a.raw")
    stranger.says(f'disk = "a.raw"\ncontract = "carry"\nuser-data = "{stranger.key}"\n')


def a_disk(stranger: Stranger) -> None:
    disk = small_disk(stranger.home / "own.raw")
    with disk.open("r+b") as file:
        file.seek(12 << 20)
        file.write(SECRET)
    stranger.says('disk = "../../home/own.raw"\ncontract = "carry"\n')


def a_container(stranger: Stranger) -> None:
    layer = LayerTar(stranger.home / "layer.tar")
    layer.file("srv/key", SECRET)
    oci_image(stranger.home / "oci", [layer.close()], ("--config.cmd", "/x"))
    stranger.says(f'container = "oci:{stranger.home}/oci:app"\ncommand = "exec sleep 1000"\n')


@requires("skopeo", "umoci", "busybox", "mmdebstrap", "apt-get", "debugfs", "genisoimage")
@pytest.mark.parametrize(
    "ruse",
    [a_link, a_relative_link, a_link_by_another, all_of_it, a_base, user_data, a_disk, a_container],
)
def test_no_file_of_the_builder_gets_into_an_image(
    tmp_path: Path, ruse: Callable[[Stranger], None]
) -> None:
    stranger = Stranger(tmp_path)
    ruse(stranger)
    if "oci:oci:app" in (stranger.recipe / "recipe.toml").read_text():
        web_image(stranger.recipe)
    built_image("notes")  # whose kernel is kept
    made = tmp_path / "made"
    made.mkdir()
    layers = cache_folder() / "layers"
    with contextlib.suppress(SatchelError):
        build(target(str(stranger.recipe)), made, agent=agent_program(), layers=layers)
    assert not any(SECRET[:50] in path.read_bytes() for path in made.iterdir())
