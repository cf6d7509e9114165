# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Regular tasks run when they are due, and the owner hears of problems."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from homeserver.services import launcher
from homeserver.timetable import (
    Notice,
    Notices,
    Task,
    TaskRun,
    Timetable,
    TimetableRecord,
    channel_of,
    channels,
    tasks,
    timetable,
)
from satchel.errors import IntegrityError, UnavailableError, UnsupportedError
from satchel.settings import SettingsError
from tests.homeserver.conftest import Bench
from tests.needs import requires
from tests.scripted import operation
from tests.waiting import eventually

GOLDEN = b"""{
 "version": 1,
 "runs": {
  "verify": {
   "at": 1764460800.0,
   "ok": true,
   "said": "every chunk is as it was stored"
  }
 },
 "notices": {
  "disk": {
   "text": "it is full",
   "since": 1764460800.0,
   "told": 0.0
  }
 }
}
"""


@pytest.fixture
def record(tmp_path: Path) -> TimetableRecord:
    return TimetableRecord(tmp_path / "timetable.json")


def test_the_record_is_as_its_page_has_it(record: TimetableRecord, tmp_path: Path) -> None:
    record.ran("verify", TaskRun(1764460800.0, True, "every chunk is as it was stored"))
    record.note("disk", Notice("it is full", 1764460800.0))
    path = tmp_path / "timetable.json"
    assert path.read_bytes() == GOLDEN
    again = TimetableRecord(path)
    assert (again.runs, again.notices) == (record.runs, record.notices)
    for damaged in (GOLDEN[:-9], b"[]", b"{}", GOLDEN.replace(b"1764460800.0", b'"then"')):
        path.write_bytes(damaged)
        assert TimetableRecord(path).runs == {}
    path.write_bytes(GOLDEN.replace(b": 1,", b": 2,"))
    with pytest.raises(UnsupportedError):
        TimetableRecord(path)


DAMAGED = "it is damaged"


class Clock:
    """The wall clock that the timetable sees."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timetable, "wall_clock", made.time)
    monkeypatch.setattr(timetable, "POLL_SECONDS", 0.01)
    return made


def test_a_task_runs_when_it_is_due_and_what_was_missed_runs_after_a_sleep(
    record: TimetableRecord, clock: Clock
) -> None:
    runs: list[float] = []

    def work(progress: object) -> str:
        runs.append(clock.now)
        return f"run {len(runs)}"

    made = Timetable(lambda: [Task("work", 100.0, work)], record, Notices(record, {}))
    made.start()
    assert eventually(lambda: "work" in record.runs)
    assert made.rows()[0]["last"] is None
    clock.now += 99.0
    time.sleep(0.1)
    assert runs == []
    clock.now += 10_000.0  # the host slept
    assert eventually(lambda: record.runs["work"].said == "run 1")
    clock.now -= 1_000_000.0  # the clock had been wrong: nothing waits for its time to come again
    assert eventually(lambda: record.runs["work"].at == clock.now)
    clock.now += 101.0
    assert eventually(lambda: len(runs) == 2)
    made.close()
    assert record.runs["work"] == TaskRun(clock.now, True, "run 2")


def test_a_failure_is_told_once_and_tried_again_after_an_hour(
    record: TimetableRecord, clock: Clock
) -> None:
    told: list[str] = []
    broken = threading.Event()
    broken.set()

    def work(progress: object) -> str:
        if broken.is_set():
            raise IntegrityError(DAMAGED)
        return "done"

    notices = Notices(record, {"here": lambda title, text: told.append(text)})
    made = Timetable(lambda: [Task("work", 86400.0, work)], record, notices)
    made.start()
    assert eventually(lambda: "work" in record.runs)
    clock.now += 86_401.0
    for _ in range(2):
        assert eventually(lambda: record.runs["work"] == TaskRun(clock.now, False, DAMAGED))
        clock.now += 3_601.0
    assert eventually(lambda: told == [f"work: {DAMAGED}"])
    assert [row["subject"] for row in notices.rows()] == ["work"]
    broken.clear()
    clock.now += 3_601.0
    assert eventually(lambda: record.notices == {})
    made.close()


def test_what_no_channel_took_is_told_again(record: TimetableRecord) -> None:
    told: list[str] = []

    def deaf(title: str, text: str) -> None:
        raise UnavailableError("it is deaf")

    Notices(record, {"a": deaf}).report("disk", "it is full")
    Notices(record, {"a": deaf}).deliver()
    notices = Notices(record, {"a": deaf, "b": lambda title, text: told.append(text)})
    for _ in range(2):
        notices.deliver()
    assert told == ["disk: it is full"]
    assert notices.test() == {"a": "it is deaf", "b": ""}


class Hook(http.server.BaseHTTPRequestHandler):
    asked: list[tuple[str, str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, self.headers.get("Title", ""), body))
        self.send_response(500 if self.path == "/broken" else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A web server: its address and the requests."""
    Hook.asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", Hook.asked
        server.shutdown()
        thread.join()


def test_a_webhook_ntfy_and_a_mail_program_get_the_notice(
    hook: tuple[str, list[tuple[str, str, bytes]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = hook
    channel_of(f"{url}/hook")("Satchel at home", "disk: it is full")
    channel_of(f"ntfy:{url}/topic")("Satchel at home", "disk: it is full")
    assert json.loads(asked[0][2])["text"] == "disk: it is full"
    assert asked[1] == ("/topic", "Satchel at home", b"disk: it is full")
    with pytest.raises(UnavailableError):
        channel_of(f"{url}/broken")("", "")
    program = tmp_path / "sendmail"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/argv\ncat > {tmp_path}/mail\n')
    program.chmod(0o755)
    monkeypatch.setattr(channels, "SENDMAIL_FOLDERS", str(tmp_path))
    channel_of("mailto:me@example.org")("Satchel at home", "disk: it is full")
    assert (tmp_path / "argv").read_text() == "-i -- me@example.org\n"
    assert "disk: it is full" in (tmp_path / "mail").read_text()
    for wrong in ("pager", "mailto:nobody", "mailto:a b@c", "http://example.org/hook", "ntfy:x"):
        with pytest.raises(SettingsError):
            channel_of(wrong)


@requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")
def test_home_takes_checkpoints_by_itself_and_tells_of_a_machine_that_died(
    bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "POLL_SECONDS", 0.05)
    bench.reopen(checkpoint_minutes=60, checkpoint_operations=3)
    bench.service()
    bench.home.launch("notes")
    home, service = bench.home, bench.home.service("notes")

    def newest() -> int:
        latest = service.shelf.latest()
        return latest.operation if latest else 0

    home.timetable.start()
    assert eventually(lambda: "checkpoint notes" in [row["task"] for row in home.timetable.rows()])
    list(service.answer([operation(number) for number in (1, 2, 3)]))
    assert eventually(lambda: all(row["last"] for row in home.timetable.rows()[3:]))
    assert newest() == 3
    list(service.answer([operation(4)]))
    monkeypatch.setattr(tasks, "IDLE_SECONDS", 0.0)
    clock.now = time.time() + 1e9
    assert eventually(lambda: newest() == 4)
    said = home.timetable.run("checkpoint notes")["said"]
    assert "its machine paused" in said
    home.launch_wanted()
    time.sleep(0.2)
    bench.machine().crash("the power failed")
    assert eventually(lambda: [row["subject"] for row in home.notices.rows()] == ["service notes"])
    assert "it ended" in home.notices.rows()[0]["text"]
