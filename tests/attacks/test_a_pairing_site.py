# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A site that a person pairs with once: it wants to become his home, to have its keys believed for
his home, or to keep the trust that another key has earned."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.test_pairing import Machine
from tests.needs import requires
from wire import Grant, Identity, Invitation, PairRequest, allowed_signers_line

pytestmark = requires("ssh-keygen")


class Laptop(Machine):
    """A person's client."""

    def pairs(self, code: str, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        words = ("pair", *([code] if code else []), *words, "--json")
        return self.types("satchel", *words, typed=typed)

    def files(self) -> dict[str, bytes]:
        """The files that say which peers this client believes."""
        names = ("client.toml", "known_hosts", "allowed_signers", "known_hosts.d/cafe")
        return {n: p.read_bytes() for n in names if (p := self.config / n).exists()}


class Host:
    """A host, and the keys that it names in a grant."""

    def __init__(self, folder: Path, port: int = 22) -> None:
        folder.mkdir()
        self.key = Identity.create(folder / "host").public
        owner = Identity.create(folder / "owner").public
        self.signer = allowed_signers_line("owner", owner, namespaces=["satchel-manifest"])
        self.port = port

    @contextmanager
    def shows(
        self, kind: str, name: str = "cafe", seen: list[str] | None = None
    ) -> Iterator[Invitation]:
        """seen: gets the keys of those who pair."""

        def grant(request: PairRequest) -> Grant:
            if seen is not None:
                seen.append(request.public)
            return Grant(
                kind=kind,
                name=name,
                user="me",
                port=self.port,
                socket="/run/s.sock",
                host_keys=(self.key,),
                signer=self.signer if kind == "home" else "",
            )

        with Invitation(kind, grant, listen="127.0.0.1", port=0) as shown:
            yield shown


@pytest.fixture
def laptop(short_path: Path) -> Laptop:
    return Laptop(short_path / "laptop")


@pytest.fixture
def paired(laptop: Laptop, short_path: Path) -> Laptop:
    """A laptop with a home at port 22 and a trusted surrogate at port 23."""
    with Host(short_path / "home").shows("home", "home") as shown:
        done = laptop.pairs(shown.address("127.0.0.1", "").uri, "--home")
        assert done.returncode == 0, done.stderr
    with Host(short_path / "spot", 23).shows("surrogate") as shown:
        done = laptop.pairs("", "--at", f"127.0.0.1:{shown.port}", typed=f"{shown.code}\n")
        assert done.returncode == 0, done.stderr
    config = laptop.config / "client.toml"
    config.write_text(
        config.read_text().replace("[surrogates.cafe]\n", "[surrogates.cafe]\ntrusted = true\n")
    )
    assert laptop.settings.surrogate("cafe").trusted
    return laptop


def test_a_cafe_does_not_become_home(laptop: Laptop, short_path: Path) -> None:
    with Host(short_path / "cafe").shows("home") as shown:
        done = laptop.pairs(shown.address("127.0.0.1", "").uri, "--name", "cafe")
    assert done.returncode == 5, done.stderr
    assert "offers to be a home" in done.stderr
    assert laptop.files() == {}


def test_another_home_takes_nothing_without_a_word(paired: Laptop, short_path: Path) -> None:
    before = paired.files()
    stranger = Host(short_path / "stranger")
    with stranger.shows("home", "home") as shown:
        done = paired.pairs(shown.address("127.0.0.1", "").uri, "--home")
    assert done.returncode == 5, done.stderr
    assert "another home" in done.stderr
    assert paired.files() == before
    with stranger.shows("home", "home") as shown:
        done = paired.pairs(shown.address("127.0.0.1", "").uri, "--home", "--replace")
    assert done.returncode == 0, done.stderr
    assert (paired.config / "allowed_signers").read_text() == stranger.signer + "\n"


def test_a_surrogate_at_homes_place_is_refused(paired: Laptop, short_path: Path) -> None:
    before = paired.files()
    for port, name in ((22, "other"), (23, "other")):
        with Host(short_path / f"cafe{port}", port).shows("surrogate", name) as shown:
            done = paired.pairs(shown.address("127.0.0.1", "").uri, "--replace")
        assert done.returncode == 5, done.stderr
        assert f"127.0.0.1 port {port} is" in done.stderr
    with Host(short_path / "named", 24).shows("surrogate", "home") as shown:
        assert paired.pairs(shown.address("127.0.0.1", "").uri).returncode == 5
    assert paired.files() == before


def test_trust_belongs_to_a_key(paired: Laptop, short_path: Path) -> None:
    before = paired.files()
    other = Host(short_path / "other", 23)
    with other.shows("surrogate") as shown:
        done = paired.pairs(shown.address("127.0.0.1", "").uri)
    assert done.returncode == 5, done.stderr
    assert "other keys" in done.stderr
    assert paired.files() == before
    with other.shows("surrogate") as shown:
        done = paired.pairs(shown.address("127.0.0.1", "").uri, "--replace")
    assert json.loads(done.stdout)["name"] == "cafe"
    assert not paired.settings.surrogate("cafe").trusted
    assert paired.files()["known_hosts"] == before["known_hosts"]


def test_silent_connections_block_no_pairing(laptop: Laptop, short_path: Path) -> None:
    with Host(short_path / "cafe").shows("surrogate") as shown:
        silent = [socket.create_connection(("127.0.0.1", shown.port)) for _ in range(20)]
        done = laptop.pairs(shown.address("127.0.0.1", "").uri)
        for connection in silent:
            connection.close()
    assert done.returncode == 0, done.stderr


def test_two_sites_do_not_see_one_key(laptop: Laptop, short_path: Path) -> None:
    """Nor home's. Else two operators could tell that one person came to both."""
    seen: list[str] = []
    for name, kind in (("home", "home"), ("cafe", "surrogate"), ("station", "surrogate")):
        host = Host(short_path / name, 22 + len(seen))
        with host.shows(kind, name, seen) as shown:
            flags = ["--home"] if kind == "home" else []
            done = laptop.pairs(shown.address("127.0.0.1", "").uri, *flags)
            assert done.returncode == 0, done.stderr
    assert len({key.split()[1] for key in seen}) == 3
