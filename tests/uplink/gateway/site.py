# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A real WebDAV server, the real daemon before it, and unmodified programs: each a process.

Nothing here imports what it tests but descriptions, which are data: the daemon is the command, and
programs speak HTTP to its port.
"""

import abc
import base64
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.repository.tree import ROOT
from tests.waiting import eventually
from uplink.policy import built_in_descriptions

USER, PASSWORD = "me", "secret"
OBSCURED = "bfRBsRC2Hy52vABwjBp60ap1uxS5KA"
"""The password as `rclone obscure` writes it."""
MODULES = Path("/usr/lib/apache2/modules")

QUIET_RADIO = """\
[quiet]
alpha-up = 438.39
alpha-down = 51.97
beta = 1288.04
promotion = { ms = 1, mw = 12105 }
tail = [{ ms = 1, mw = 12270000 }]
rate = 6
source = "the tests' own: as much as 4G's promotion and tail cost, and over at once"
"""
"""With a real tail the next upload would find the interface awake, and go."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _started(argv: list[str], log: Path, port: int, **environment: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=os.environ | environment,
        )
    assert eventually(lambda: process.poll() is not None or _listens(port))
    assert process.poll() is None, log.read_text()
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass
class DavServer(abc.ABC):
    """files: the folder that it serves. Its requests are in `log`, one line each."""

    files: Path
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/dav"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> None:
        self.process = _started(self.argv(), self.log, self.port)

    def stop(self) -> None:
        if self.process is not None:
            _end(self.process)
            self.process = None

    @abc.abstractmethod
    def argv(self) -> list[str]: ...

    def requests(self, method: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if f'"{method} ' in line]


class WsgiDav(DavServer):
    def more(self) -> dict[str, object]:
        return {}

    def argv(self) -> list[str]:
        config = self.folder / "wsgidav.json"
        users = {USER: {"password": PASSWORD}}
        fields = {
            "host": "127.0.0.1",
            "port": self.port,
            "provider_mapping": {"/dav": str(self.files)},
            "simple_dc": {"user_mapping": {"*": users}},
            "http_authenticator": {"accept_digest": False, "default_to_digest": False},
            "verbose": 3,
            "logging": {"enable_loggers": []},
            **self.more(),
        }
        config.write_text(json.dumps(fields))
        return [sys.executable, "-m", "wsgidav.server.server_cli", "-c", str(config)]


class SecureWsgiDav(WsgiDav):
    """With a certificate that no authority of the system vouches for, for 127.0.0.1."""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/dav"

    def more(self) -> dict[str, object]:
        key, certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        if not key.exists():
            words = ["-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=cloud"]
            words += ["-addext", "subjectAltName=IP:127.0.0.1"]
            words += ["-keyout", str(key), "-out", str(certificate)]
            subprocess.run(["openssl", "req", *words], check=True, capture_output=True)
        return {
            "ssl_certificate": str(certificate),
            "ssl_private_key": str(key),
            "ssl_adapter": "builtin",
        }


class Apache(DavServer):
    """Apache's mod_dav on its file system."""

    def argv(self) -> list[str]:
        config = self.folder / "apache.conf"
        passwords = self.folder / "passwords"
        hashed = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
        passwords.write_text(f"{USER}:{{SHA}}{hashed}\n")
        self.folder.chmod(0o755)
        self.files.chmod(0o777)
        (self.folder / "locks").mkdir(exist_ok=True)
        (self.folder / "locks").chmod(0o777)
        names = (
            *("mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic"),
            *("dav", "dav_fs", "alias", "mime"),
        )
        load = "".join(
            f"LoadModule {name}_module {MODULES}/mod_{name}.so\n"
            for name in names
            if (MODULES / f"mod_{name}.so").exists()
        )
        config.write_text(
            f"""{load}
ServerName 127.0.0.1
Listen 127.0.0.1:{self.port}
PidFile {self.folder}/apache.pid
User nobody
Group nogroup
ErrorLog {self.folder}/error.log
LogFormat "%h \\"%r\\" %>s" short
CustomLog {self.log} short
TypesConfig /dev/null
DocumentRoot {self.files}
DavLockDB {self.folder}/locks/db
Alias /dav {self.files}
<Directory {self.files}>
  Dav On
  DavDepthInfinity on
  AuthType Basic
  AuthName files
  AuthUserFile {passwords}
  Require valid-user
</Directory>
"""
        )
        return ["/usr/sbin/apache2", "-f", str(config), "-DFOREGROUND"]


@dataclass
class Site:
    """A server, and uplink before it as the service `cloud`. more: other tables of client.toml;
    account: USER:PASSWORD that uplink has; address: of the server, where it is not its `url`"""

    server: DavServer
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    settings: str = ""
    service: str = ""
    more: str = ""
    account: str = f"{USER}:{PASSWORD}"
    address: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/cloud"

    @property
    def satchel(self) -> list[str]:
        """The command `satchel uplink` with the settings of this site."""
        return [sys.executable, "-m", "client", "--config", str(self.config), "uplink"]

    @property
    def config(self) -> Path:
        return self.folder / "client.toml"

    @property
    def spool(self) -> Path:
        return self.folder / "uplink"

    def start(self) -> None:
        (self.folder / "radios.toml").write_text(QUIET_RADIO)
        keys = {
            "data": "d",
            "state": "s",
            "run": "r",
        }
        lines = [f'{key} = "{self.folder / name}"' for key, name in keys.items()]
        radio = "" if "radio =" in self.settings else 'radio = "quiet"\n'
        own = f"""
[uplink]
port = {self.port}
{radio}radios = "{self.folder / "radios.toml"}"
descriptions = "{self.folder / "descriptions"}"
state = "{self.spool}"
cache = "{self.folder / "cache"}"
{self.settings}
[uplink.services.cloud]
url = "{self.address or self.server.url}"
credentials = "{self.folder / "credentials"}"
{self.service}
"""
        credentials = self.folder / "credentials"
        credentials.write_text(f"{self.account}\n")
        credentials.chmod(0o600)
        self.config.write_text("\n".join(lines) + own + self.more)
        self.process = _started([*self.satchel, "serve"], self.folder / "uplink.log", self.port)
        assert eventually(lambda: self.listening)

    @property
    def listening(self) -> bool:
        """Whether commands reach the daemon."""
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.folder / "r" / "uplink.socket")) == 0

    def stop(self) -> None:
        if self.process is not None:
            _end(self.process)
            self.process = None

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def command(self, *words: str) -> Any:
        """What `satchel uplink ... --json` answers."""
        done = subprocess.run(
            [*self.satchel, *words, "--json"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return json.loads(done.stdout)

    def ask(self, what: str, **fields: object) -> Any:
        """What a command asks the daemon, without waiting for Python to start."""
        words = ["-d", json.dumps(fields), "-H", "Content-Type: application/json"]
        place, url = str(self.folder / "r" / "uplink.socket"), f"http://satchel/v1/{what}"
        done = subprocess.run(
            ["curl", "-sf", *(words if fields else []), "--unix-socket", place, url],
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return json.loads(done.stdout)

    def flush(self, *, failed: bool = False) -> Any:
        return self.ask("flush", failed=failed)

    def hold(self) -> None:
        self.ask("hold", seconds=3600)

    def states(self) -> dict[str, int]:
        counts: dict[str, int] = self.ask("status")["counts"]
        return {state: count for state, count in counts.items() if count}

    def run(
        self, *argv: str, background: bool = True, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """A program, as `satchel uplink run` starts it."""
        mark = {"SATCHEL_UPLINK": "background" if background else "foreground"}
        return subprocess.run(
            argv,
            check=check,
            capture_output=True,
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
            env=os.environ | mark | rclone_settings(self.url, self.folder),
        )

    def curl(
        self, *words: str, path: str = "/", background: bool = True, user: str = ""
    ) -> tuple[int, bytes]:
        """Status and body of one request of curl's."""
        place = self.folder / f"answer-{os.urandom(6).hex()}"
        said = self.run(
            *("curl", "-s", "-u", user or f"{USER}:{PASSWORD}", "-o", str(place)),
            *("-w", "%{http_code}", *words, self.url + path),
            background=background,
            check=False,
        ).stdout
        body = place.read_bytes() if place.exists() else b""
        place.unlink(missing_ok=True)
        return int(said), body

    def list_folder(self, path: str = "/") -> bytes:
        """So that uplink knows what is in it."""
        status, body = self.curl("-X", "PROPFIND", "-H", "Depth: 1", path=path)
        assert status == 207, body
        return body


def describe(folder: Path, name: str = "webdav", fresh: float = 0.3) -> None:
    """A description for the site in the folder, with another `fresh`."""
    place = folder / "descriptions"
    place.mkdir(exist_ok=True)
    text = built_in_descriptions()[name]
    assert "fresh = 30" in text
    (place / f"{name}.toml").write_text(text.replace("fresh = 30", f"fresh = {fresh}"))


def rclone_settings(url: str, folder: Path) -> dict[str, str]:
    """For the remote `up:`."""
    return {
        "RCLONE_CONFIG": str(folder / "rclone.conf"),
        "RCLONE_CONFIG_UP_TYPE": "webdav",
        "RCLONE_CONFIG_UP_URL": url,
        "RCLONE_CONFIG_UP_USER": USER,
        "RCLONE_CONFIG_UP_PASS": OBSCURED,
    }


@contextlib.contextmanager
def site(
    folder: Path, kind: type[DavServer] = WsgiDav, settings: str = "", service: str = ""
) -> Iterator[Site]:
    """All of it, running. settings, service: more keys of `[uplink]` and of the service."""
    files, own = folder / "files", folder / "server"
    for each in (files, own):
        each.mkdir()
    server = kind(files, own)
    there = Site(server, folder, settings=settings, service=service)
    try:
        server.start()
        there.start()
        yield there
    finally:
        there.stop()
        server.stop()


def as_second_writer(server: DavServer, path: str, content: bytes | None = None) -> bytes:
    """What another device does at the server: writes, or reads where there is no content."""
    manager = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    manager.add_password(None, server.url, USER, PASSWORD)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
    request = urllib.request.Request(server.url + path, data=content)
    request.get_method = lambda: "GET" if content is None else "PUT"  # type: ignore[method-assign]
    with opener.open(request, timeout=60) as answer:
        body: bytes = answer.read()
    return body
