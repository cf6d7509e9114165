# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home image ls`: what is built, and what only seems to be."""

from pathlib import Path

from testbed.built import built_image
from tests.homeserver.program import Program
from tests.needs import requires


def built(program: Program, folder: Path) -> dict[str, str]:
    config = folder / "home.toml"
    config.write_text(f'images = "{folder / "images"}"\n')
    rows = program.json("--config", config, "image", "ls")
    return {row["name"]: row["built"] for row in rows}


def test_recipes_without_images(tmp_path: Path) -> None:
    (tmp_path / "images" / "notes").mkdir(parents=True)
    assert built(Program(tmp_path), tmp_path) == {
        "desktop": "no",
        "files": "no",
        "notes": "no",
        "redis": "no",
        "desktop-carried": "no",
        "speech": "no",
    }


@requires("mmdebstrap")
def test_an_image_that_lacks_a_file_is_damaged(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "notes"
    folder.mkdir(parents=True)
    image = built_image("notes")
    for path in image.disk.parent.iterdir():
        (folder / path.name).symlink_to(path)
    assert built(Program(tmp_path), tmp_path)["notes"] == "yes"
    (folder / image.disk.name).unlink()
    assert built(Program(tmp_path), tmp_path)["notes"] == "damaged"


def test_what_is_set_of_a_service_is_a_key_of_its_machine(tmp_path: Path) -> None:
    program = Program(tmp_path)
    for change, words in (
        ("vpcus=2", "did you mean vcpus"),
        ("vcpus", "KEY=VALUE"),
        ("memory-mib=much", "memory-mib must be a whole number"),
        ("memory-mib=1", "is not between"),
    ):
        error = program.fails(2, "service", "add", "notes", "--set", change)
        assert words in " ".join(error.values())
    error = program.fails(3, "service", "add", "notes", "--set", "memory-mib=2048")
    assert "satchel-home init" in error["fix"]


def test_a_recipe_of_ones_own_is_refused_by_file_line_and_key(tmp_path: Path) -> None:
    own = tmp_path / "thing"
    own.mkdir()
    (own / "recipe.toml").write_text('name = "thing"\n\nmemroy-mib = 300\n')
    error = Program(tmp_path).fails(2, "image", "build", own)
    assert f"{own}/recipe.toml:3: unknown key memroy-mib" in error["what"]
    assert error["fix"].startswith("did you mean memory-mib?")
