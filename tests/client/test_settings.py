# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from client import ClientSettings
from satchel.errors import NotFoundError, UsageError
from satchel.names import host_name
from satchel.settings import SettingsError, load
from wire import Peer

TEXT = """
name = "laptop"
media = "/media/stick"
durability = "interval"
response-seconds = 5

[home]
destination = "anna@home.example"
port = 2222
socket = "/run/satchel/home.sock"

[surrogates.cafe]
destination = "guest@cafe.example"
socket = "/run/satchel/surrogate.sock"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "client.toml"
    path.write_text(text)
    return path


def test_a_file_says_who_is_where(tmp_path: Path) -> None:
    settings = load(ClientSettings, written(tmp_path, TEXT))
    assert settings.client_name == "laptop"
    assert settings.home.port == 2222
    assert settings.surrogate("cafe").destination == "guest@cafe.example"
    assert settings.surrogate("cafe").port == 22
    assert settings.response_seconds == 5.0


def test_the_folder_of_the_medium_may_begin_with_a_tilde(tmp_path: Path) -> None:
    settings = load(ClientSettings, written(tmp_path, 'media = "~/stick"'))
    assert settings.media == str(Path.home() / "stick")


def test_without_a_file_there_is_neither_home_nor_surrogate(tmp_path: Path) -> None:
    settings = load(ClientSettings, tmp_path / "none.toml")
    assert settings.home == Peer()
    assert settings.client_name == host_name()
    with pytest.raises(
        NotFoundError, match=r"no home is known.*`satchel pair --home CODE --at HOST`"
    ):
        settings.require_home()
    with pytest.raises(NotFoundError, match=r"no surrogate cafe: known: none; .* --name cafe`"):
        settings.surrogate("cafe")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('name = "My Laptop"', "cannot name a host"),
        ("response-seconds = 0", "response-seconds must be positive"),
        ("evidence-mib = -1", "evidence-mib must not be negative"),
        ("[surrogates.home]", "home cannot name a surrogate"),
        ("[surrogates.UPPER]", "cannot name a host"),
        ('durability = "perhaps"', "durability"),
        ('[home]\nport = "22"', "home.port must be a whole number"),
        ("colour = 1", "unknown key colour"),
        ("response-seconds = true", "response-seconds must be a number"),
        ("media = ", "cannot read"),
        ('media = "~nobody-of-that-name/stick"', "give the whole path"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load(ClientSettings, written(tmp_path, text))


def test_an_unknown_surrogate_names_those_that_are_known() -> None:
    settings = ClientSettings(surrogates={"b": Peer(), "a": Peer()})
    with pytest.raises(NotFoundError, match="known: a, b"):
        settings.surrogate("c")
    assert issubclass(SettingsError, UsageError)
