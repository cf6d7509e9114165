# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from satchel.settings import SettingsError, load


@dataclass(frozen=True)
class Peer:
    destination: str = ""
    port: int = 22


@dataclass(frozen=True)
class Settings:
    name: str = "client"
    keep_checkpoints: int = 2
    seconds: float = 1.5
    allow: bool = False
    folder: Path = Path("/srv")
    tags: tuple[str, ...] = ()
    durability: Literal["each", "off"] = "each"
    home: Peer = field(default_factory=Peer)
    surrogates: dict[str, Peer] = field(default_factory=dict)


def read(tmp_path: Path, toml: str) -> Settings:
    path = tmp_path / "settings.toml"
    path.write_text(toml)
    return load(Settings, path)


def test_a_missing_file_is_an_empty_one(tmp_path: Path) -> None:
    assert load(Settings, tmp_path / "none.toml") == Settings()
    assert read(tmp_path, "") == Settings()


def test_every_kind_of_field_is_read(tmp_path: Path) -> None:
    toml = """
name = "phone"
keep-checkpoints = 3
seconds = 2
allow = true
folder = "/var/lib"
tags = ["a", "b"]
durability = "off"
[home]
destination = "me@home"
[surrogates.cafe]
port = 2222
"""
    assert read(tmp_path, toml) == Settings(
        name="phone",
        keep_checkpoints=3,
        seconds=2.0,
        allow=True,
        folder=Path("/var/lib"),
        tags=("a", "b"),
        durability="off",
        home=Peer(destination="me@home"),
        surrogates={"cafe": Peer(port=2222)},
    )


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nobody")
    assert read(tmp_path, 'folder = "~/data"').folder == Path("/nobody/data")


@pytest.mark.parametrize(
    ("toml", "names"),
    [
        ("colour = 1", ["unknown key colour", "keep-checkpoints"]),
        ("seconds = nan", ["seconds must be a number", "nan"]),
        ("seconds = inf", ["seconds must be a number", "inf"]),
        ("keep-checkpoints = 1\nkeep_checkpoints = 2", ["keep_checkpoints is there twice"]),
        ("[home]\nprot = 1", ["unknown key home.prot", "port"]),
        ("[surrogates.cafe]\nprot = 1", ["unknown key surrogates.cafe.prot"]),
        ("keep-checkpoints = '2'", ["keep-checkpoints must be a whole number", "'2'"]),
        ("keep-checkpoints = true", ["keep-checkpoints must be a whole number"]),
        ("allow = 1", ["allow must be true or false"]),
        ("seconds = true", ["seconds must be a number"]),
        ("home = 1", ["home must be a table"]),
        ("tags = 'a'", ["tags must be"]),
        ("tags = [1]", ["tags must be text in quotes"]),
        ("surrogates = 1", ["surrogates must be"]),
        ("durability = 'on'", ["durability must be one of each, off", "'on'"]),
        ("durability = []", ["durability must be"]),
        ("name =", ["cannot read"]),
    ],
)
def test_what_cannot_be_meant_is_refused_by_file_and_key(
    tmp_path: Path, toml: str, names: list[str]
) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, toml)
    assert "settings.toml" in str(caught.value)
    for name in names:
        assert name in str(caught.value)
