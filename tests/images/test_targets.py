# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What people ask to have built, and what they change in it."""

from pathlib import Path

import pytest

from images import Recipe, RecipeInvalid, RecipeNotFound, changed, target
from satchel.errors import UsageError
from satchel.names import BadName
from satchel.settings import SettingsError
from tests.images.test_recipe import write


def test_a_shipped_recipe_by_its_name_and_ones_own_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert target("notes") == Recipe.find("notes")
    own = write(tmp_path, 'name = "thing"\ncommand = "x"\nextends = "base"')
    assert target(str(own)).folder == own.resolve()
    monkeypatch.chdir(tmp_path)
    assert target("./thing") == target("thing") == target(str(own))
    base = target("./thing").base()
    assert base is not None
    assert base.name == "base"


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("oci:./my.App", "my-app"),
        ("oci:layout:v1.2", "layout"),
        ("oci-archive:/tmp/web.tar", "web"),
        ("docker-archive:app.tar", "app"),
        ("docker-archive:./App_2.tar:web:latest", "app-2"),
        ("docker://registry.example/group/forge@sha256:0000", "forge"),
    ],
)
def test_an_image_of_a_container_has_a_name_from_its_reference(reference: str, name: str) -> None:
    recipe = target(reference)
    assert (recipe.name, recipe.container, recipe.folder) == (name, reference, None)
    assert target(reference, "other").name == "other"


def test_a_folder_with_a_dockerfile_is_a_container(tmp_path: Path) -> None:
    folder = tmp_path / "My Site"
    folder.mkdir()
    (folder / "Containerfile").write_text("FROM scratch\n")
    recipe = target(str(folder))
    assert (recipe.name, recipe.container) == ("my-site", str(folder))


def test_what_is_nothing_to_build_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecipeNotFound, match="there are: desktop"):
        target("nothing")
    with pytest.raises(RecipeNotFound, match=r"neither a recipe\.toml nor a Dockerfile"):
        target(str(tmp_path))
    with pytest.raises(RecipeNotFound, match="no folder"):
        target("./nothing-here")
    with pytest.raises(UsageError, match="--name"):
        target("oci:___")
    with pytest.raises(BadName):
        target("oci:app", "../app")
    with pytest.raises(UsageError, match="the recipe's name is notes"):
        target("notes", "other")


def test_keys_are_changed_as_they_are_written_in_toml_or_bare() -> None:
    notes = Recipe.find("notes")
    made = changed(notes, ["memory-mib=300", "title=a = b", "stateful=false", 'needs=["time"]'])
    assert (made.memory_mib, made.title, made.stateful) == (300, "a = b", False)
    assert made.needs == ("time",)
    assert changed(notes, ["command=7"]).command == "7"
    assert changed(notes, []) == notes


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ("memory-mib", UsageError, "KEY=VALUE"),
        ("memory=1", SettingsError, "--set: unknown key memory; did you mean memory-mib"),
        ("memory-mib=much", SettingsError, "memory-mib must be a whole number"),
        ("memory-mib=1", RecipeInvalid, "memory-mib is wrong"),
    ],
)
def test_a_change_that_cannot_be_meant(change: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        changed(Recipe.find("notes"), [change])


FAULTY = """\
name = "thing"
title = \"\"\"
memory-mib = 7 is no key here
\"\"\"
packages = [
  "one", # ] memory-mib = 8
]
%s

[[rehearsal]]
path = "/"

[[rehearsal]]
%s
"""


@pytest.mark.parametrize(
    ("key", "request_key", "line", "words"),
    [
        ("memory-mib = 9", "", 8, "memory-mib is wrong"),
        ("memroy-mib = 90", "", 8, "unknown key memroy-mib; did you mean memory-mib"),
        ("port = 'http'", "", 8, "port must be a whole number"),
        ("", "methud = 'GET'", 14, r"unknown key rehearsal\[2\].methud; did you mean method"),
        ("", "path = 3", 14, r"rehearsal\[2\].path must be text in quotes"),
        ("needs = [", "", 0, r"cannot read .*recipe\.toml"),
    ],
)
def test_a_fault_is_told_with_its_file_line_and_key(
    tmp_path: Path, key: str, request_key: str, line: int, words: str
) -> None:
    folder = write(tmp_path, FAULTY.replace('\n"""', '"""', 1) % (key, request_key))
    text = (folder / "recipe.toml").read_text().replace('title = """\n', 'title = """')
    (folder / "recipe.toml").write_text(text)
    with pytest.raises(UsageError, match=words) as raised:
        Recipe.load(folder)
    told = str(raised.value)
    number = [n for n, row in enumerate(text.splitlines(), 1) if row in (key, request_key) and row]
    assert f"recipe.toml:{number[0]}: " in told if line else "at line" in told


def test_a_recipe_may_extend_a_shipped_one_and_its_sibling_comes_first(tmp_path: Path) -> None:
    own = write(tmp_path, 'name = "thing"\nextends = "notes"\ncommand = "x"')
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "recipe.toml").write_text('name = "notes"\npackages = ["one"]')
    base = Recipe.load(own).base()
    assert base is not None
    assert base.packages == ("one",)
