# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""From a code that is shown to a login by real ssh, with no file edited by hand."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, request

from client.platform.settings import ClientSettings
from homeserver.home import media_signing
from homeserver.settings import DOOR_SOCKET
from media import MEDIA_KEY_NAMESPACE, Media, SealKeys, new_seal
from satchel.settings import load
from surrogate.operator import TOKEN
from testbed.sshd import Sshd
from tests.needs import requires
from wire import Identity, Links, allowed_signers_line, read_certificate, serve

pytestmark = requires("sshd", "ssh", "ssh-keygen", "ssh-keyscan")

BIN = Path(sys.executable).parent


class Machine:
    """Somebody's folders, and the programs run with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "run").mkdir(parents=True, mode=0o700)
        self.config = folder / "config" / "satchel"
        self.folders = {
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }
        self.environment = os.environ | self.folders
        self.shown: list[subprocess.Popen[str]] = []

    def types(self, program: str, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command; typed: its standard input."""
        return subprocess.run(
            [BIN / program, *words],
            env=self.environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def sees(self, program: str, *words: str) -> Any:
        done = self.types(program, *words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def shows(self, program: str, *words: str) -> tuple[str, str, str]:
        """The URI, the code and the place that a command shows, which goes on."""
        process = subprocess.Popen(
            [BIN / program, *words, "--port", "0", "--at", "127.0.0.1", "--json"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.shown.append(process)
        assert process.stderr
        first, second = process.stderr.readline(), process.stderr.readline()
        uri = re.search(r"'(satchel://pair\?\S+)'", first)
        typed = re.search(r"([0-9]{4}-[0-9]{4}) --at (\S+)", second)
        assert uri, first + process.stderr.read()
        assert typed, second
        return uri[1], typed[1], typed[2]

    def answered(self) -> tuple[int, str, str]:
        process = self.shown[-1]
        said, more = process.communicate(timeout=60)
        return process.returncode, said, more

    @property
    def settings(self) -> ClientSettings:
        return load(ClientSettings, self.config / "client.toml")

    def close(self) -> None:
        for process in self.shown:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                assert pipe
                pipe.close()


@pytest.fixture
def laptop(short_path: Path) -> Iterator[Machine]:
    made = Machine(short_path / "laptop")
    yield made
    made.close()


@pytest.fixture
def site(short_path: Path) -> Iterator[Machine]:
    made = Machine(short_path / "site")
    yield made
    made.close()


@pytest.fixture
def site_sshd(site: Machine) -> Iterator[Sshd]:
    """An sshd with the lines that `authority init` says, and no key in authorized_keys."""
    Identity.create(site.folder / "host_key")
    said = site.sees(
        "satchel-surrogate",
        "authority",
        "init",
        "--name",
        "127.0.0.1",
        "--host-key",
        str(site.folder / "host_key.pub"),
    )
    options = said["sshd_config"]
    with Sshd.start(site.folder, options=options, environment=site.folders) as sshd:
        site.config.mkdir(parents=True)
        (site.config / "surrogate.toml").write_text(f"ssh-port = {sshd.port}\n")
        yield sshd


def reaches(settings: ClientSettings, name: str, peer: Any, run: Path) -> Any:
    """What a daemon behind the door there answers, over a link as sessions make it."""
    app, place = Flask("daemon"), Path(peer.socket)
    if name == "home":
        place = place.with_name(DOOR_SOCKET)
    place.parent.mkdir(parents=True, exist_ok=True)
    (place.parent / TOKEN).write_text("0")

    @app.post("/v1/tenants")
    def admit() -> dict[str, str]:
        assert request.get_json() == {"identity": Identity.open(peer.identity).fingerprint}
        return {"socket": str(place), "forwarded": ""}

    app.add_url_rule("/v1/word", view_func=lambda: {"word": name})
    with serve(app, place, threads=2, max_body=1 << 20), Links(run) as links:
        return links.open(name, peer).http.get_json("/v1/word")


def test_a_guest_pairs_with_a_site_and_is_let_in(
    site: Machine, site_sshd: Sshd, laptop: Machine, short_path: Path
) -> None:
    uri, _, _ = site.shows("satchel-surrogate", "admit")
    paired = laptop.sees("satchel", "pair", uri, "--name", "cafe")
    assert (paired["kind"], paired["name"]) == ("surrogate", "cafe")
    code, said, more = site.answered()
    assert code == 0, more
    settings = laptop.settings
    peer = settings.surrogate("cafe")
    assert json.loads(said)["identity"] == Identity.open(peer.identity).fingerprint
    assert (site.folder / "authorized_keys").read_text() == ""
    assert reaches(settings, "cafe", peer, short_path / "l") == {"word": "cafe"}


def test_a_certificate_lasts_twelve_hours_and_names_the_guest(
    site: Machine, site_sshd: Sshd, laptop: Machine
) -> None:
    _, code, place = site.shows("satchel-surrogate", "admit")
    laptop.sees("satchel", "pair", code, "--at", place, "--name", "cafe")
    key = laptop.settings.surrogate("cafe").identity
    certificate = read_certificate(key.with_name("cafe-cert.pub").read_text())
    assert certificate.key_id.decode() == Identity.open(key).fingerprint
    assert (certificate.valid_before - certificate.valid_after) // 60 in (725, 726)
    assert not certificate.extensions  # permit-pty is one
    assert list(certificate.critical_options) == [b"force-command"]


def test_a_laptop_pairs_with_its_home(site: Machine, laptop: Machine, short_path: Path) -> None:
    site.sees("satchel-home", "init")
    keys = site.folder / "authorized_keys"
    with Sshd.start(site.folder, environment=site.folders) as sshd:
        uri, _, _ = site.shows(
            "satchel-home", "pair", "--ssh-port", str(sshd.port), "--authorized-keys", str(keys)
        )
        assert laptop.sees("satchel", "pair", uri, "--home")["kind"] == "home"
        code, _, more = site.answered()
        assert code == 0, more
        settings = laptop.settings
        assert reaches(settings, "home", settings.home, short_path / "l") == {"word": "home"}
        shell = subprocess.run(
            [
                *("ssh", "-F", "none", "-i", settings.home.identity, "-p", str(sshd.port)),
                *("-o", f"UserKnownHostsFile={settings.home.known_hosts}", "-o", "BatchMode=yes"),
                *(settings.home.destination, "echo in"),
            ],
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert b"in\n" not in shell.stdout
    assert (laptop.config / "allowed_signers").read_text().startswith("owner namespaces=")
    assert keys.read_text().startswith("restrict,")


def test_three_wrong_codes_end_it(site: Machine, site_sshd: Sshd, laptop: Machine) -> None:
    _, code, place = site.shows("satchel-surrogate", "admit")
    digits = code.replace("-", "")
    wrong = f"{(int(digits) + 1) % 10**8:08}"
    for _ in range(3):
        done = laptop.types("satchel", "pair", wrong, "--at", place)
        assert done.returncode == 9, done.stderr
        assert "the code is wrong" in done.stderr
    assert laptop.types("satchel", "pair", code, "--at", place).returncode == 8
    assert site.answered()[0] == 9
    assert not (laptop.config / "client.toml").exists()


def test_a_site_with_another_key_than_the_one_shown_is_refused(
    site: Machine, site_sshd: Sshd, laptop: Machine
) -> None:
    uri, _, _ = site.shows("satchel-surrogate", "admit")
    other = re.sub(r"key=[^&]*", "key=SHA256%3A" + "A" * 43, uri)
    done = laptop.types("satchel", "pair", other)
    assert done.returncode == 9, done.stderr
    assert not (laptop.config / "client.toml").exists()


def test_doctor_says_all_that_is_missing_at_once(
    site: Machine, site_sshd: Sshd, laptop: Machine
) -> None:
    def findings(machine: Machine, program: str, code: int, *words: str) -> str:
        done = machine.types(program, "doctor", *words, "--json")
        assert done.returncode == code, done.stderr
        rows = json.loads(done.stdout)
        assert all(row["remedy"] for row in rows)
        return "\n".join(f"{row['severity']}: {row['what']}" for row in rows)

    first = findings(laptop, "satchel", 4)
    assert "fault: there is no" in first
    assert "signs checkpoints" in first
    assert "no surrogate is known" in first
    assert "no medium is named" in first
    port = str(site_sshd.port)
    at_home = findings(site, "satchel-home", 4, "--ssh-port", port)
    assert "there is no home" in at_home
    assert "no home server answers" in at_home
    site.sees("satchel-home", "init")
    assert "there is no home" not in findings(site, "satchel-home", 4, "--ssh-port", port)
    uri, _, _ = site.shows("satchel-surrogate", "admit")
    laptop.sees("satchel", "pair", uri, "--name", "cafe")
    told = findings(laptop, "satchel", 4)
    assert "names no home" in told
    assert "no surrogate is known" not in told
    laptop.settings.surrogate("cafe").identity.chmod(0o644)
    assert "others may read" in findings(laptop, "satchel", 4)
    plain = laptop.types("satchel", "doctor")
    assert plain.stdout.splitlines()[0].startswith("fault: ")
    assert any(line.startswith("    ") for line in plain.stdout.splitlines())


def test_doctor_opens_a_sealed_medium_with_the_laptops_key(laptop: Machine) -> None:
    key = laptop.config / "id_ed25519"
    key.parent.mkdir(parents=True)
    stick = laptop.folder / "stick"
    stick.mkdir()
    owner = Identity.create(laptop.folder / "owner")
    signer = allowed_signers_line("owner", owner.public, namespaces=[MEDIA_KEY_NAMESPACE])
    (laptop.config / "allowed_signers").write_text(signer + "\n")
    seal = new_seal([Identity.create(key).public], sign=media_signing(owner))
    Media.init(stick, seal, SealKeys()).close()
    laptop.sees("satchel", "config", "set", "media", str(stick))
    assert str(stick) not in laptop.types("satchel", "doctor", "--json").stdout
    key.unlink()
    for kept in laptop.folder.rglob("media-keys"):
        shutil.rmtree(kept)
    assert f"the medium at {stick} is sealed" in laptop.types("satchel", "doctor", "--json").stdout


def test_settings_are_changed_and_comments_stay(laptop: Machine) -> None:
    laptop.config.mkdir(parents=True)
    config = laptop.config / "client.toml"
    config.write_text("# mine\nname = 'me'  # of me\n\n[home]\ndestination = 'a@b'\n")
    laptop.sees("satchel", "config", "set", "media", "/media/stick")
    laptop.sees("satchel", "config", "set", "home.port", "2222")
    assert laptop.types("satchel", "config", "get", "home.port").stdout == "2222\n"
    assert laptop.types("satchel", "config", "get", "home.colour").returncode == 3
    assert laptop.types("satchel", "config", "get", "auto-mib").stdout == "512\n"
    assert laptop.types("satchel", "config", "get", "home.trusted").stdout == "false\n"
    before = config.read_text()
    assert "# mine" in before
    assert "# of me" in before
    for key, value in (("home.port", "soon"), ("colour", "red"), ("surrogates.home.port", "1")):
        assert laptop.types("satchel", "config", "set", key, value).returncode == 2
    assert config.read_text() == before
    laptop.sees("satchel", "surrogate", "add", "cafe", "me@cafe")
    words = ("surrogate", "add", "cafe", "me@cafe")
    assert laptop.types("satchel", *words).returncode == 5
    assert laptop.settings.surrogate("cafe").destination == "me@cafe"
    laptop.sees("satchel", "surrogate", "rm", "cafe")
    assert laptop.types("satchel", "surrogate", "rm", "cafe").returncode == 3
    assert laptop.settings.media == "/media/stick"
