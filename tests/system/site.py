# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""All roles at once as real processes, for one test: home with the real `notes`, a surrogate at
each hotspot, a person with a stick who types commands and uses the service through its port."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from images import SIGNATURE_NAMESPACE, Manifest
from surrogate.operator import credentials
from testbed import Testbed, namespaces
from testbed.built import cache_folder
from testbed.media import Stick
from testbed.namespaces import ip
from testbed.roles import PROGRAMS, Role, Roles, listens
from tests.waiting import eventually
from wire import HttpClient, Identity

PATIENCE_SECONDS = 40.0

MOVE_SECONDS = 300.0
"""How long a move may take: a desktop has 16 MB that only the surrogate before has, and at what the
links between hotspots carry beside the working set, 0.09 MB/s was seen, it takes three minutes."""

CALL_SECONDS = 60.0

RESPONSE_SECONDS = 8
"""How long a call of the person's session waits for a response."""


@dataclass(frozen=True)
class Provisions:
    """A home whose service has a checkpoint, at operation 0, and a device with it."""

    data: Path
    device: Path | None
    folder: Path
    allowed_signers: str
    service: str = "notes"


@dataclass(frozen=True)
class CommandError:
    """What a command that failed said: its exit code and its last line on standard error."""

    code: int
    line: str


@dataclass(frozen=True)
class Reply:
    """What the service's port answered. operation, leader: None where it is not the service's."""

    status: int
    body: str
    operation: int | None
    leader: str | None

    @property
    def error(self) -> dict[str, str]:
        """The session's own error."""
        assert self.operation is None, self
        return dict(json.loads(self.body))


class Site:
    """See the module. `close` puts everything away and returns what was left all the same."""

    def __init__(self, bed: Testbed, carried: Provisions, folder: Path) -> None:
        """The files of all roles, below `folder`; nothing runs yet."""
        self.bed = bed
        self.folder = folder
        self.stick = Stick(folder / "m", copy_of=carried.device)
        if not self.stick.is_device:
            subprocess.run(["cp", "-a", f"{carried.folder}/.", self.stick.root], check=True)
        self.roles = Roles(bed, folder, cache_folder())
        self.home = self.roles.home
        self.spots = self.roles.surrogates
        subprocess.run(["cp", "-a", "--reflink=auto", carried.data, self.home.folder], check=True)
        self._signers = carried.allowed_signers
        self.service = carried.service
        self._sessions: list[subprocess.Popen[bytes]] = []
        self._mounts: list[Path] = []

    @property
    def media(self) -> str:
        return str(self.stick.root)

    def start(self) -> None:
        """Every daemon, and the service at home."""
        self.roles.serve(self._signers)
        self.settings('media = ""', f"response-seconds = {RESPONSE_SECONDS}")
        self.home.command("launch", self.service, "--json")

    def settings(self, *lines: str) -> None:
        """More settings of the client's, before its tables."""
        config = self.roles.client_config
        config.write_text("\n".join([*lines, config.read_text()]))

    def types(
        self, *words: str | Path, config: Path | None = None, seconds: float = PATIENCE_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Type a command of `satchel` at the client."""
        where = config or self.roles.client_config
        argv = [PROGRAMS / "satchel", "--config", where, *words]
        return self.bed.client.run(argv, timeout=seconds)

    def sees(self, *words: str | Path, seconds: float = PATIENCE_SECONDS) -> Any:
        """The same, for what must succeed: its JSON."""
        done = self.types(*words, "--json", seconds=seconds)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def fails(self, *words: str | Path, config: Path | None = None) -> CommandError:
        """The same, for what must fail: as it says it to people."""
        return said_by(self.types(*words, config=config))

    def run(self, *words: str | Path) -> subprocess.Popen[bytes]:
        """A session of the service in the background; returns when it answers."""
        process = self.roles.start_session(self.service, *words, "--json", log=self.log)
        self._sessions.append(process)
        return process

    def run_elsewhere(self, config: Path, *words: str | Path) -> int:
        """A session of another device at the same place, in the background; its port."""
        argv = [PROGRAMS / "satchel", "--config", config, "run", "notes", *words]
        process = self.bed.client.popen(argv, log=config.with_name("session.log"))
        self._sessions.append(process)
        place = config.parent / "run" / "notes.sock"
        assert eventually(lambda: listens(place) or process.poll() is not None)
        with HttpClient(place) as session:
            return int(session.get_json("/v1/status")["port"])

    def run_with_media(self, *words: str) -> subprocess.Popen[bytes]:
        return self.run("--media", self.media, *words)

    def move(self, surrogate: str, *options: str) -> Any:
        """Returns when the replica there needs the one before no more."""
        move = ("move", self.service, "--to", surrogate)
        return self.sees(*move, *options, seconds=MOVE_SECONDS)

    def status(self) -> Any:
        """What `satchel status --json` shows, without a process for each look."""
        with HttpClient(self.folder / "c" / "run" / f"{self.service}.sock") as session:
            return session.get_json("/v1/status")

    def states(self) -> dict[str, str]:
        """The state of each replica."""
        return {row["name"]: row["state"] for row in self.status()["replicas"]}

    def replicas_at(self, surrogate: str) -> list[str]:
        """The replicas that a surrogate has."""
        with HttpClient(self.spots[surrogate].run_dir / "surrogate.sock") as daemon:
            headers = credentials(self.spots[surrogate].run_dir)
            answer = daemon.request("GET", "/v1/status", headers=headers)
            return [row["replica"] for row in json.loads(answer.body)["replicas"]]

    @property
    def log(self) -> Path:
        """What the sessions said."""
        return self.folder / "session.log"

    @property
    def said(self) -> str:
        return self.log.read_text()

    def logs(self) -> str:
        """What every program said, for who looks into a failure."""
        paths = [self.log, *(role.log for role in (self.home, *self.spots.values()))]
        texts = [f"--- {path}\n{path.read_text()[-20000:]}" for path in paths if path.exists()]
        return "\n".join(texts)

    def port(self) -> int:
        """The local port of the session."""
        return int(self.status()["port"])

    def request(self, port: int, method: str, path: str, body: bytes = b"") -> Reply:
        """Use the service as a program on the client's device does."""
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.sock = self.bed.client.socket(socket.SOCK_STREAM)
        connection.sock.settimeout(CALL_SECONDS)
        try:
            connection.sock.connect(("127.0.0.1", port))
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        number = answer.getheader("X-Satchel-Operation")
        leader = answer.getheader("X-Satchel-Leader")
        return Reply(answer.status, text, int(number) if number else None, leader)

    def add(self, port: int, title: str, text: str = "x") -> Reply:
        """Write a note."""
        body = json.dumps({"title": title, "text": text}).encode()
        return self.request(port, "POST", "/api/notes", body)

    def adds(self, port: int, *titles: str) -> None:
        """Write notes, each of which must be acknowledged."""
        for title in titles:
            reply = self.add(port, title)
            assert reply.status == 201, reply

    def titles(self, port: int) -> set[str]:
        """Every note that there is."""
        reply = self.request(port, "GET", "/api/notes")
        assert reply.status == 200, reply
        return {note["title"] for note in json.loads(reply.body)["notes"]}

    def all_is_stable(self) -> bool:
        """Whether home has every operation of the session on disk."""
        status = self.status()
        return bool(status["stable_operation"] == status["last_operation"])

    def titles_at_home(self) -> set[str]:
        """Every note that home has, seen by a session of its own without media."""
        self.run()
        found = self.titles(self.port())
        assert self.sees("stop", "notes") == {"stopped": "notes"}
        return found

    def at_home(self) -> dict[str, Any]:
        """Home's view of the service."""
        with HttpClient(self.home.run_dir / "home.sock") as daemon:
            (row,) = daemon.get_json("/v1/services")
        return dict(row)

    def small_data(self, spot: Role, mebibytes: int) -> Path:
        """Give a surrogate a data folder on a file system of that size, before it starts."""
        data = spot.folder / "data"
        data.mkdir()
        argv: list[str | Path] = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "data", data]
        subprocess.run(argv, check=True)
        self._mounts.append(data)
        return data

    def home_fails(self, *words: str | Path) -> CommandError:
        """A command of `satchel-home` that must fail."""
        return said_by(self.home.host.run(self.home.argv(*words), timeout=PATIENCE_SECONDS))

    def sign_anew(self, manifest: Path, machine: dict[str, str]) -> None:
        """Another machine in a checkpoint on the stick, signed by the owner."""
        old = Manifest.from_bytes(manifest.read_bytes())
        new = dataclasses.replace(old, machine={**old.machine, **machine}).to_bytes()
        owner = Identity.open(self.home.folder / "data" / "identity" / "owner")
        manifest.write_bytes(new)
        manifest.with_suffix(".sig").write_bytes(owner.sign(new, SIGNATURE_NAMESPACE))

    def cut_home(self, *, silent: bool) -> None:
        """Nobody reaches home any more, and hears that at once unless it is `silent`."""
        if silent:
            self.bed.link("home").cut()
        else:
            ip("-n", self.bed.host("internet").namespace, *["link", "set", "home0", "down"])

    def mend_home(self) -> None:
        self.bed.link("home").restore()
        ip("-n", self.bed.host("internet").namespace, *["link", "set", "home0", "up"])

    def restart_home(self) -> None:
        """A home that was stopped, with the service."""
        self.home.start("home.sock", [self.roles.identity.public])
        self.home.command("launch", self.service, "--json")

    def close(self) -> list[str]:
        """End every program in an orderly way, the sessions first; what is left nevertheless."""
        for session in self._sessions:
            if session.poll() is None:
                session.terminate()
        for session in self._sessions:
            session.wait(PATIENCE_SECONDS)
        self.mend_home()
        left = self.left_by_sessions()
        self.roles.stop()
        for mount in self._mounts:
            subprocess.run(["umount", mount], check=True)
        left += self.left_anywhere()
        self.stick.close()
        return left + mounts_below(self.folder)

    def left_by_sessions(self) -> list[str]:
        """Processes at the client, its sockets, and replicas and sockets at surrogates, once they
        had time to end: an interpreter takes a moment after its session was put away, and so does
        an ssh that was interrupted while it connected."""
        eventually(lambda: not self._there_of_sessions())
        return self._there_of_sessions()

    def _there_of_sessions(self) -> list[str]:
        left = processes_at(self.bed, "client")
        left += [line for device in ("c", "t") for line in sockets_below(self.folder / device)]
        for spot in self.spots.values():
            left += [str(path) for path in (spot.run_dir / "r").glob("*")]
        return left

    def left_anywhere(self) -> list[str]:
        """Processes, mounts and sockets of every role, which has ended, once they had time to end:
        of a cell the last processes are gone a moment after its first one."""
        eventually(lambda: not self._there_at_all())
        return self._there_at_all()

    def _there_at_all(self) -> list[str]:
        left = [line for host in self.bed.hosts for line in processes_at(self.bed, host)]
        left += sockets_below(self.folder)
        for role in (self.home, *self.spots.values()):
            left += [str(path) for path in (role.run_dir / "r").glob("*")]
            left += mounts_below(role.folder)
        return left


@dataclass
class Work:
    """A program that writes notes one after the other, whatever it is answered.

    acknowledged: the titles of those for which the service answered; refused: the other answers
    """

    site: Site
    port: int
    prefix: str = "note"
    pause: float = 0.02
    acknowledged: list[str] = field(default_factory=list)
    refused: list[Reply] = field(default_factory=list)
    leaders: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Work:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Write no more; returns when the last answer is there."""
        self._ending.set()
        self._thread.join()

    def more(self, count: int) -> None:
        """Until so many more were acknowledged."""
        goal = len(self.acknowledged) + count
        done = eventually(lambda: len(self.acknowledged) >= goal)
        assert done, (self.acknowledged, self.refused[-3:])

    def _run(self) -> None:
        number = 0
        while not self._ending.is_set():
            number += 1
            title = f"{self.prefix} {number}"
            reply = self.site.add(self.port, title)
            if reply.status == 201 and reply.leader is not None:
                self.acknowledged.append(title)
                self.leaders.append(reply.leader)
            else:
                self.refused.append(reply)
            time.sleep(self.pause)


def said_by(done: subprocess.CompletedProcess[str]) -> CommandError:
    """What a command said that failed, in one line."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("satchel")]
    assert len(lines) == 1, (done.stdout, done.stderr)
    return CommandError(done.returncode, lines[0])


def processes_at(bed: Testbed, host: str) -> list[str]:
    """The commands that run on a host."""
    found = []
    for pid in namespaces.processes([bed.host(host).namespace]):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if words:
            found.append(f"{host}: {pid} {words[:200]}")
    return found


def machines_at(bed: Testbed, host: str) -> list[int]:
    """Pids of the QEMUs on a host."""
    return [int(line.split()[1]) for line in processes_at(bed, host) if "qemu-system" in line]


def mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if line.split()[4].startswith(f"{folder}/")]


def sockets_below(folder: Path) -> list[str]:
    found = subprocess.run(
        ["find", folder, "-xdev", "-type", "s"], capture_output=True, text=True, check=False
    )
    return found.stdout.splitlines()


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """Send a signal to a program; its exit code."""
    process.send_signal(number)
    return process.wait(PATIENCE_SECONDS)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
