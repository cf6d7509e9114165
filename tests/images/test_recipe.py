# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Recipes: what is shipped, what is refused, what a change changes."""

import shutil
from pathlib import Path

import pytest

from images import Recipe, RecipeInvalid, RecipeNotFound, ServedPort, recipes
from images.recipe import SHIPPED
from satchel.settings import SettingsError


def write(folder: Path, text: str) -> Path:
    recipe = folder / "thing"
    recipe.mkdir(exist_ok=True)
    (recipe / "recipe.toml").write_text(text)
    return recipe


def test_the_shipped_services() -> None:
    names = [recipe.name for recipe in recipes()]
    assert names == [
        "desktop",
        "desktop-carried",
        "files",
        "notes",
        "redis",
        "speech",
    ]
    assert Recipe.find("notes").stateful
    assert not Recipe.find("speech").stateful


def test_shipped_services_extend_one_base_and_keep_the_promised_sizes() -> None:
    for recipe in recipes():
        base = recipe.base()
        assert base is not None
        assert base.name == "base"
        assert recipe.disk_mib >= 1024
        assert 256 <= recipe.memory_mib <= 512


def test_the_service_file_is_what_the_agent_reads() -> None:
    lines = Recipe.find("notes").service_file().splitlines()
    keys = {line.split("=", 1)[0] for line in lines}
    assert keys == {"command", "port", "user", "workdir", "moment", "environment"}
    assert "port=8080" in lines


def test_json_gives_the_same_recipe_without_its_folder() -> None:
    recipe = Recipe.find("speech")
    copy = Recipe.from_json(recipe.to_json())
    assert copy.folder is None
    assert copy.to_json() == recipe.to_json()
    assert copy.contract_spec() == recipe.contract_spec()


def test_a_carried_service_says_so_to_its_agent_and_in_its_manifests(tmp_path: Path) -> None:
    text = 'name = "thing"\ncontract = "carry"\nbehind = 5\nport = 5432\n'
    recipe = Recipe.load(write(tmp_path, text))
    assert not recipe.logged
    assert "streams=5432" in recipe.service_file().splitlines()
    ports = [{"front": "tcp", "port": 5432, "local": 0}]
    assert recipe.contract_spec().to_json()["carry"] == {"behind": 5, "ports": ports}
    assert not recipe.contract_spec().stateful
    two = Recipe.load(
        write(tmp_path, text + "ports = [{ port = 22 }, { port = 80, local = 8080 }]")
    )
    assert "streams=22 80" in two.service_file().splitlines()
    assert Recipe.from_json(two.to_json()).contract_spec() == two.contract_spec()
    assert not Recipe.find("notes").contract_spec().carried
    with pytest.raises(SettingsError, match="contract must be one of auto, replay, carry"):
        Recipe.load(write(tmp_path, 'name = "thing"\ncontract = "loan"'))


@pytest.mark.parametrize(
    ("line", "contract"),
    [
        ("ports = [{ port = 22 }]", "carry"),
        ("websockets = true", "carry"),
        ('disk = "box.qcow2"', "carry"),
        ('egress = "home"\negress-hosts = ["one.example:443"]', "carry"),
        ('contract = "carry"', "carry"),
        ('contract = "replay"', "replay"),
        ("shares = true", "replay"),
        ('needs = ["time"]', "replay"),
        ("port = 80", "a trial"),
    ],
)
def test_a_recipe_says_by_what_it_has_how_it_is_executed(
    tmp_path: Path, line: str, contract: str
) -> None:
    recipe = Recipe.load(write(tmp_path, f'name = "thing"\n{line}\n'))
    found = "carry" if recipe.carried else "a trial" if recipe.undecided else "replay"
    assert found == contract
    assert recipe.contract_spec().carried == (contract == "carry")
    if "websockets" in line:
        assert recipe.contract_spec().ports == (ServedPort("http", 8080, 0),)


@pytest.mark.parametrize("name", ["base", "nothing", "../notes", "", "a" * 500])
def test_what_is_no_service_is_not_found(name: str) -> None:
    with pytest.raises(RecipeNotFound, match="there are: desktop, desktop-carried, files, notes, "):
        Recipe.find(name)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('name = "other"', "name"),
        ('name = "thing"\nport = 0', "port"),
        ('name = "thing"\nport = 99999999999999999999', "port"),
        ('name = "thing"\nmemory-mib = 1', "memory-mib"),
        ('name = "thing"\ndisk-mib = 100', "disk-mib"),
        ('name = "thing"\npackages = ["--hook=x"]', "packages"),
        ('name = "thing"\npackages = ["a,b"]', "packages"),
        ('name = "thing"\ndebian = "book worm"', "debian"),
        ('name = "thing"\ncommand = "a\\nuser=root"', "command"),
        ('name = "thing"\nuser = "a\\nb"', "user"),
        ('name = "thing"\nstate = ["var"]', "state"),
        ('name = "thing"\nstate = ["/var/../etc"]', "state"),
        ('name = "thing"\nenvironment = ["A"]', "environment"),
        ('name = "thing"\nneeds = ["luck"]', "needs"),
        ('name = "thing"\ncontainer = "docker://registry.example/app:latest"', "container"),
        ('name = "thing"\nextends = "../base"', "extends"),
        ('name = "thing"\nadapter-kind = "X 11"', "adapter-kind"),
        ('name = "thing"\ncontract = "replay"\nports = [{ port = 80 }]', "ports"),
        ('name = "thing"\ncontract = "replay"\nwebsockets = true', "websockets"),
        ('name = "thing"\nwebsockets = true\nneeds = ["time"]', "contract"),
        ('name = "thing"\ncontract = "carry"\nports = [{ port = 0 }]', "ports[1].port"),
        (
            'name = "thing"\ncontract = "carry"\nports = [{ port = 1, front = "udp" }]',
            "ports[1].front",
        ),
        (
            'name = "thing"\ncontract = "carry"\nports = [{ port = 1 }, { port = 1 }]',
            "ports[2].port",
        ),
        (
            'name = "thing"\ncontract = "carry"\nports = [{ port = 1, local = 9 }, '
            "{ port = 2, local = 9 }]",
            "ports[2].local",
        ),
        ('name = "thing"\ncontract = "carry"\nbehind = 0', "behind"),
        ('name = "thing"\nidempotent = ["GET /"]', "idempotent"),
        ('name = "thing"\ncontract = "carry"\nidempotent = ["GET /"]', "idempotent"),
        (
            'name = "thing"\ncontract = "carry"\nports = [{ front = "http", port = 80 }]\n'
            'idempotent = ["get notes"]',
            "idempotent",
        ),
        ('name = "thing"\negress-hosts = ["a.example:80"]', "egress-hosts"),
        ('name = "thing"\ncontract = "carry"\negress = "home"', "egress"),
        ('name = "thing"\ncontract = "carry"\negress-hosts = ["a.example:80"]', "egress-hosts"),
        *(
            (f'name = "thing"\ncontract = "carry"\negress = "home"\negress-hosts = ["{host}"]', key)
            for key in ("egress-hosts",)
            for host in ("a.example", "a..b:80", "*.example:80", "a:0", "a:70000", "1.2.3.400:80")
        ),
        ('name = "thing"\ncontract = "carry"\nneeds = ["time"]', "contract"),
        ('name = "thing"\ncontract = "carry"\nshares = true', "contract"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_key(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(RecipeInvalid) as raised:
        Recipe.load(write(tmp_path, line))
    assert raised.value.key == key


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="unknown key memory"):
        Recipe.load(write(tmp_path, 'name = "thing"\nmemory = 3'))


def test_a_base_that_extends_another_is_refused(tmp_path: Path) -> None:
    for name, extends in (("a", "b"), ("b", "c"), ("c", "")):
        (tmp_path / name).mkdir()
        text = f'name = "{name}"\nextends = "{extends}"'
        (tmp_path / name / "recipe.toml").write_text(text)
    with pytest.raises(RecipeInvalid, match="itself extends"):
        Recipe.load(tmp_path / "a").base()


def test_the_key_follows_content_and_mode_of_files_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    shutil.copytree(SHIPPED / "notes", folder)
    original = Recipe.load(folder)
    key = original.content_key()
    assert key == Recipe.find("notes").content_key()
    path = next(path for _, path in original.files())
    path.touch()
    (folder / "files" / "__pycache__").mkdir()
    (folder / "files" / "__pycache__" / "a.pyc").touch()
    assert Recipe.load(folder).content_key() == key
    path.chmod(0o755)
    assert Recipe.load(folder).content_key() != key
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"\n")
    assert Recipe.load(folder).content_key() != key
