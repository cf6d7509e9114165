# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel` as a person runs it, in processes of its own."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from client import ClientSettings
from client.cli import media as media_cli
from client.moves.history import History
from client.platform.running import running_session
from homeserver import Home, HomeSettings
from homeserver.home import signers_line
from media import Media, MediaSealed
from media.phrase import PhraseInvalid
from surrogate.fetching import Fetcher
from surrogate.prefetch.prefetcher import Prefetcher
from testbed.roles import client_settings
from tests.client.commands import SATCHEL, Commands
from tests.client.test_routes import MADE
from tests.client.world import World
from tests.media_keys import sealed_for
from tests.needs import requires
from tests.waiting import eventually
from wire import Peer

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


class Person(Commands):
    """Who types commands in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        super().__init__(world.folder / "client.toml")
        self.write(world.settings.home)
        self.sessions: list[subprocess.Popen[bytes]] = []

    def write(self, home: Peer) -> None:
        settings = self.world.settings
        text = client_settings(
            {"home": home, **{f"surrogates.{name}": p for name, p in settings.surrogates.items()}},
            run=settings.run,
            data=settings.data,
            state=settings.state,
            allowed_signers=settings.allowed_signers,
            response_seconds=3,
        )
        self.config.write_text(text)

    def runs(self, *words: str) -> subprocess.Popen[bytes]:
        """A session that answers."""
        log = (self.world.folder / "session.log").open("wb")
        argv: list[str | Path] = [SATCHEL, "--config", self.config, "run", *words]
        process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.sessions.append(process)
        assert eventually(lambda: self._answers(words[0]) or process.poll() is not None)
        assert process.poll() is None, self.said()
        return process

    def _answers(self, service: str) -> bool:
        """A killed session's socket may lie there, behind which nobody listens."""
        place = self.world.settings.run / f"{service}.sock"
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(place))
            return True
        return False

    def said(self) -> str:
        return (self.world.folder / "session.log").read_text()

    def close(self) -> None:
        for session in self.sessions:
            session.kill()
            session.wait()


@pytest.fixture
def person(world: World) -> Iterator[Person]:
    world.home.launch("notes")
    world.home.carry("notes", world.stick)
    made = Person(world)
    yield made
    made.close()


def ssh_processes(world: World) -> list[str]:
    """Commands of living ssh clients of the session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(world.settings.home.known_hosts) in words and words.startswith("ssh "):
            found.append(words)
    return found


def nothing_is_left(world: World) -> bool:
    run = [path for path in world.settings.run.rglob("*") if path.is_socket()]
    there = [hosted for spot in world.spots.values() for hosted in spot.replicas()]
    forwarded = [
        path
        for spot in world.spots.values()
        for path in spot.host.settings.forwarded.rglob("*")
        if path.is_socket()
    ]
    lease = world.home.home.service("notes").lease.holder
    return not (run or there or forwarded or ssh_processes(world) or lease)


def test_run_use_look_move_and_stop(person: Person) -> None:
    stick = str(person.world.stick)
    process = person.runs("notes", "--media", stick, "--at", "a")
    answer = person.sees("call", "notes", "POST", "/api/notes", "-d", "x", "-H", "X-A: 1")
    assert (answer["status"], answer["operation"]) == (200, 1)
    assert answer["body"].startswith("1 ")
    assert person.types("call", "notes", "GET", "/").stdout.startswith("2 ")
    with running_session(person.world.settings, "notes") as session:
        tally = session.get_json("/v1/tally")
    assert (tally["answered"], tally["under_way"]) == (2, 0)
    assert sum(tally["first_responses"].values()) == 2
    assert tally["answered_seconds"] > 0
    assert eventually(lambda: len(person.sees("status", "notes")["replicas"]) == 2)
    trace = person.config.parent / "move.json"
    moved = person.sees("move", "notes", "--to", "b", "--trace", str(trace))
    assert moved["surrogate"] == "b"
    events = json.loads(trace.read_text())["traceEvents"]
    hosts = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert {*hosts} == {"client", "a", "b", "home"}
    (whole,) = (e for e in events if e["name"] == "the session moves")
    assert "tell mounts" not in {e["name"] for e in events}  # what takes long to import, for none
    (steps,) = ({e["name"] for e in events if e["pid"] == n} for h, n in hosts.items() if h == "b")
    assert "guest answers" in steps
    inside = [e for e in events if e["ph"] == "X" and e["cat"] != "command"]
    assert all(whole["ts"] <= e["ts"] <= whole["ts"] + whole["dur"] for e in inside)
    listed = {(row["service"], row["where"]) for row in person.sees("ls")}
    assert listed >= {("notes", "home"), ("notes", "here"), ("-", "a"), ("-", "b")}
    assert person.sees("stop", "notes") == {"stopped": "notes"}
    assert process.wait(60) == 0
    assert eventually(lambda: nothing_is_left(person.world))
    assert person.types("status", "notes").returncode == 3


def test_a_move_by_hand_over_says_what_it_waits_for(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.runs("notes", "--media", str(person.world.stick), "--at", "a")
    person.sees("call", "notes", "POST", "/api/notes", "-d", "x")
    assert eventually(lambda: len(person.sees("status", "notes")["replicas"]) == 2)
    said, true = threading.Event(), Prefetcher._become_independent

    def late(*given: object) -> None:
        said.wait(60)
        true(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(Prefetcher, "_become_independent", late)
    words = ("move", "notes", "--to", "b", "--route", "handover")
    argv: list[str | Path] = [SATCHEL, "--config", person.config, *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as move:
        assert move.stderr
        line = move.stderr.readline()
        said.set()
        shown, more = move.communicate(timeout=60)
    assert re.fullmatch(
        r"b answers; [0-9.]+ [KM]?i?B are to come that only the old surrogate has\n", line
    )
    assert "handover" in shown
    assert (move.returncode, more) == (0, "")


def test_plan_shows_the_routes_there_are_and_what_it_is_to_stay(person: Person) -> None:
    person.runs("notes", "--media", str(person.world.stick))
    for _ in range(2):  # single operations tell how fast a replica is
        person.sees("call", "notes", "GET", "/")
    plans = person.sees("plan", "notes")["plans"]
    assert [plan["surrogate"] for plan in plans] == ["a", "b"]
    assert {route["route"] for route in plans[0]["routes"]} == {"replay", "fresh"}
    assert list(plans[0]["stay"]) == ["home"]
    said = [plan["host"]["says"] for plan in plans]
    assert said == ["a runs it under tcg", "b runs it under tcg"]
    (only,) = person.sees("plan", "notes", "--at", "b")["plans"]
    assert only["surrogate"] == "b"
    shown = person.types("plan", "notes").stdout
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert any(row.startswith("a replay ") and "media" in row for row in rows)
    assert any(re.fullmatch(r"- stay 0\.0 - [0-9.]+ s an operation at home", row) for row in rows)
    assert exit_code_and_text(person.types("plan", "notes", "--at", "c"))[0] == 3


def test_paths_are_added_listed_and_forgotten(person: Person) -> None:
    def code(*words: str) -> int:
        return person.types("path", *words).returncode

    assert person.sees("path", "ls") == []
    assert code("add", "a", "b") == 0
    assert code("add", "b", "a", "b") == 0
    assert [row["path"] for row in person.sees("path", "ls")] == ["a b", "b a b"]
    assert (code("add", "a", "b"), code("add", "a"), code("add", "a", "c")) == (5, 2, 3)
    assert (code("rm", "b", "a"), code("rm", "a", "b")) == (3, 0)
    assert person.types("path", "ls").stdout.split() == ["path", "b", "a", "b"]


def test_status_is_readable_for_people(person: Person) -> None:
    person.runs("notes", "--media", str(person.world.stick))
    person.sees("move", "notes", "--to", "a")
    person.sees("call", "notes", "GET", "/")
    assert eventually(lambda: person.sees("status", "notes")["stable_operation"] == 1)
    shown = person.types("status", "notes").stdout
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    heads = next(row for row in rows if row.startswith("name state operation lag"))
    assert "fetched bytes" in heads
    assert "faults" in heads
    assert any(row.startswith("home joined 1 0") for row in rows)
    near = next(row for row in rows if row.startswith("a joined 1 0"))
    assert "media" in near
    assert "KiB" in near or " B" in near
    assert any(row.startswith("stable operation 1") for row in rows)
    (status,) = [r for r in person.sees("status", "notes")["replicas"] if r["name"] == "a"]
    assert [volume["name"] for volume in status["volumes"]] == ["disk0", "ram"]
    maps = [row for row in rows if row.startswith(("a disk0 ", "a ram "))]
    assert len(maps) == 2
    assert any("100.0%" in row or "%" in row for row in maps)


def test_a_terminal_shows_how_volumes_fill(person: Person) -> None:
    person.runs("notes", "--media", str(person.world.stick))
    person.sees("move", "notes", "--to", "a")
    ours, theirs = pty.openpty()
    words: list[str | Path] = [SATCHEL, "--config", person.config, "status", "notes", "--follow"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while not (b"ram" in shown and b"disk0" in shown):
            assert select.select([ours], [], [], 60.0)[0], shown
            shown += os.read(ours, 4096)
        person.sees("stop", "notes")
        with contextlib.suppress(OSError):  # the other end is closed
            while os.read(ours, 4096):
                pass
        assert process.wait(60) == 0
    os.close(ours)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(person: Person, number: int) -> None:
    process = person.runs("notes", "--media", str(person.world.stick), "--at", "a")
    assert eventually(person.world.spots["a"].replicas)
    person.sees("call", "notes", "GET", "/")
    process.send_signal(number)
    time.sleep(0.2)
    process.send_signal(number)
    assert process.wait(60) == (0 if number == signal.SIGTERM else 130)
    assert eventually(lambda: nothing_is_left(person.world))


def test_an_interrupt_while_a_replica_is_brought_up_leaves_nothing(person: Person) -> None:
    process = person.runs("notes", "--media", str(person.world.stick), "--at", "a")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert eventually(lambda: nothing_is_left(person.world))


def test_stop_ends_a_session_whose_replica_is_being_brought_up(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()

    def never(*_: object) -> bytes:
        held.wait(120)
        return b""

    monkeypatch.setattr(Fetcher, "read", never)
    process = person.runs("notes", "--media", str(person.world.stick), "--at", "a")
    assert eventually(person.world.spots["a"].replicas)
    stopped = person.sees("stop", "notes")
    held.set()
    assert stopped == {"stopped": "notes"}
    assert process.wait(60) == 0
    assert eventually(lambda: nothing_is_left(person.world))


def test_a_killed_session_leaves_no_ssh_and_can_be_started_again(person: Person) -> None:
    process = person.runs("notes", "--media", str(person.world.stick))
    person.sees("move", "notes", "--to", "a")
    left = person.world.spots["a"].replicas()
    process.kill()
    process.wait()
    assert eventually(lambda: not ssh_processes(person.world))
    assert person.types("status", "notes").returncode == 3
    person.runs("notes", "--media", str(person.world.stick))
    person.sees("move", "notes", "--to", "a")
    now = person.world.spots["a"].replicas()
    assert len(now) == 1
    assert now != left
    person.sees("stop", "notes")
    person.world.spots["a"].host.tenants.clear_forwarded()  # sshd leaves a killed client's sockets
    assert eventually(lambda: nothing_is_left(person.world))


def test_a_second_session_of_a_service_is_refused_and_harms_nothing(person: Person) -> None:
    person.runs("notes")
    refused = person.types("run", "notes")
    assert refused.returncode == 5
    assert "a session of notes runs here already; `satchel stop notes`" in refused.stderr
    assert person.sees("call", "notes", "GET", "/")["status"] == 200


def exit_code_and_text(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    lines = [line for line in done.stderr.splitlines() if line.startswith("satchel:")]
    return done.returncode, lines[-1] if lines else done.stderr


def test_errors_have_their_own_code_and_say_what_to_do(person: Person) -> None:
    world = person.world
    for words, code, text in (
        (("run", "diary"), 3, "no service diary"),
        (("run", "../x"), 2, "cannot name a service"),
        (("run", "notes", "--media", str(world.folder)), 3, "satchel"),
        (("status", "notes"), 3, "`satchel run notes`"),
        (("stop", "notes"), 3, "no session of notes runs here"),
        (("run", "notes", "--at", "c"), 3, "known: a, b"),
        (("run", "diary", "--at", "c"), 3, "no surrogate c"),
        (("run", "notes", "--port", "65536"), 2, "'65536' is no port"),
        (("mount", "x", "--buffer-mib", "0"), 2, "x>=1"),
        (("mount", "x", "--wait", "inf"), 2, "0<=x<=1000000"),
    ):
        done = person.types(*words)
        assert "lease was not" not in done.stderr
        found, said = exit_code_and_text(done)
        assert (found, text in said) == (code, True), said
    assert nothing_is_left(world)


def test_a_port_that_is_taken_ends_the_start_and_leaves_nothing(person: Person) -> None:
    port = int(person.world.home.sshd.port)
    code, said = exit_code_and_text(person.types("run", "notes", "--port", str(port)))
    assert code == 5
    assert "the port is taken; choose another one" in said
    assert eventually(lambda: nothing_is_left(person.world))


def test_a_call_that_fails_ends_with_the_code_of_its_fault(person: Person) -> None:
    person.runs("notes")
    person.world.home.home.service("notes").stop()
    code, said = exit_code_and_text(person.types("call", "notes", "GET", "/"))
    assert code == 8
    assert "got no response in 3 s" in said
    assert "do not send it again" in said
    assert exit_code_and_text(person.types("call", "notes", "GET", "nowhere"))[0] == 2
    assert exit_code_and_text(person.types("call", "notes", "GET", "/", "-H", "x"))[0] == 2
    assert exit_code_and_text(person.types("call", "notes", "GET", "/", "-d", "@/no"))[0] == 2


def test_json_errors_are_json(person: Person) -> None:
    done = person.types("status", "notes", "--json")
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    assert error["code"] == "not-found"
    assert error["fix"] == "`satchel run notes`"


def test_the_history_of_moves_tells_what_each_took_and_by_how_much_it_was_mispredicted(
    person: Person,
) -> None:
    History.of(person.world.settings.state, "notes").add(MADE)
    told = person.sees("plan", "notes", "--history")
    made = asdict(MADE) | {"route": "replay"}
    assert told == {"moves": [made | {"error": 0.5}], "median_error": 0.5}
    table = person.types("plan", "notes", "--history")
    assert "median error: 50%" in table.stdout
    assert "replay_seconds" not in table.stdout


def test_without_settings_it_is_said_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "RUNTIME_DIR"):
        monkeypatch.setenv(f"XDG_{kind}", str(tmp_path / kind))
    missing = (
        "no home is known; run `satchel-home pair` there, "
        "and `satchel pair --home CODE --at HOST` here"
    )
    done = types("run", "notes")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"satchel: {missing}; or name media that have a checkpoint\n"
    assert types("doctor", "notes").stderr == f"satchel: {missing}\n"
    listed = types("ls")
    assert (listed.returncode, listed.stderr) == (3, f"satchel: {missing}\n")
    wrong = types("--config", str(tmp_path / "client.tml"), "ls")
    assert wrong.returncode == 2
    assert "client.tml' does not exist" in wrong.stderr


def types(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SATCHEL, *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_ls_says_why_home_is_not_known(person: Person) -> None:
    person.world.home.cut()
    listed = types("--config", str(person.config), "ls", "--json")
    assert listed.returncode == 8
    assert "cannot connect to home" in listed.stderr
    assert {row["state"] for row in json.loads(listed.stdout)} == {"surrogate"}
    assert list(person.world.settings.run.rglob("*.api")) == []
    assert ssh_processes(person.world) == []


def test_who_carries_a_medium_defragments_it_without_home(person: Person) -> None:
    stick = str(person.world.stick)
    person.world.home.cut()
    done = person.sees("media", "defrag", stick)
    assert (done["after"], done["generation"]) == ({"notes": 1}, 2)
    refused = person.types("media", "defrag")
    assert exit_code_and_text(refused)[0] == 2
    assert "say where it is mounted" in refused.stderr


def test_a_phrase_is_tested_without_opening_the_medium(tmp_path: Path) -> None:
    home = HomeSettings(data=tmp_path / "home", run=tmp_path / "run")
    Home.init(home)
    (tmp_path / "signers").write_text(signers_line(home) + "\n")
    settings = ClientSettings(data=tmp_path / "data", allowed_signers=tmp_path / "signers")
    root = tmp_path / "stick"
    root.mkdir()
    seal = sealed_for(home)
    Media.init(root, seal, home.media_keys).close()

    def unlock(phrase: str, *words: str) -> None:
        argv = [str(root), "--phrase", phrase, *words]
        CliRunner().invoke(media_cli.unlock, argv, obj=settings, catch_exceptions=False)

    for phrase in (seal.phrase, seal.phrase.upper()):
        unlock(phrase, "--check")
        with pytest.raises(MediaSealed):
            Media.open(root, settings.media_keys)
    with pytest.raises(PhraseInvalid):
        unlock(seal.phrase[:-1], "--check")
    with pytest.raises(MediaSealed, match="belongs to another medium"):
        unlock(sealed_for(home).phrase, "--check")
    unlock(seal.phrase)
    Media.open(root, settings.media_keys).close()
