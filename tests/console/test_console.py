# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a person sees: tables, JSON, sizes, errors and exit codes."""

import errno
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from console import bar, show, size
from satchel.errors import ROOTS

PROGRAM = """\
import signal, sys, threading, click
from console import json_option, run_program
from satchel import errors
@click.command()
@click.argument("kind")
@json_option
def command(kind, as_json):
    if kind == "os":
        open("/nonexistent/file")
    if kind.isdigit():
        raise OSError(int(kind), "it says", "/a/file")
    if kind == "wait":
        try:
            print("waiting", flush=True)
            threading.Event().wait()
        finally:
            print("putting away", flush=True)
            threading.Event().wait(0.5)
            print("put away", flush=True)
    if kind != "fine":
        raise getattr(errors, kind)("cannot do it", why="no reason", fix="do not")
run_program(command, "program")
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ran(*arguments: str) -> tuple[int, str]:
    process = start(*arguments)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.__name__)
def test_every_root_has_its_exit_code(root: type[Exception]) -> None:
    code, said = ran(root.__name__, "--json")
    assert code == root.exit_code  # type: ignore[attr-defined]
    assert json.loads(said) == {
        "error": {
            "code": root.wire_code,  # type: ignore[attr-defined]
            "what": "cannot do it",
            "why": "no reason",
            "fix": "do not",
        }
    }


def test_an_error_is_one_line() -> None:
    assert ran("NotFoundError") == (3, "program: cannot do it: no reason; do not\n")
    assert ran("fine") == (0, "")
    assert ran("os") == (3, "program: cannot use /nonexistent/file: No such file or directory\n")
    wrong = "program: got unexpected extra argument (too); see `program --help`\n"
    assert ran("fine", "too") == (2, wrong)


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.EROFS, 9), (errno.EACCES, 9), (errno.ENOSPC, 7), (errno.EIO, 8), (errno.EINVAL, 1)],
)
def test_an_error_of_the_system_has_the_code_of_what_it_is(number: int, code: int) -> None:
    assert ran(str(number)) == (code, "program: cannot use /a/file: it says\n")


def test_a_command_that_cannot_be_meant_is_told_in_json_too() -> None:
    code, said = ran("fine", "--wrong", "--json")
    assert code == 2
    assert json.loads(said)["error"]["code"] == "usage"
    assert "--wrong" in json.loads(said)["error"]["what"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_putting_away_is_not_interrupted(number: signal.Signals) -> None:
    process = start("wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(number)
    assert process.stdout.readline() == "putting away\n"
    for again in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(again)
        time.sleep(0.02)
    out, said = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "put away\n")
    assert said.strip() == "program: interrupted"


CLOSED = """\
import click, os, sys
from pathlib import Path
from console import ready, run_program, wait_for
import queue
@click.command()
def command():
    try:
        ready()
        print("up", flush=True)
        wait_for(queue.SimpleQueue())
    finally:
        for _ in range(3):
            print("putting away", file=sys.stderr, flush=True)
            print("putting away", flush=True)
        Path(sys.argv[0]).write_text("put away")
sys.argv = [os.environ["WRITES"]]
run_program(command, "program")
"""


@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_terminal_is_an_orderly_end(tmp_path: Path, ignored: bool) -> None:
    """Output to the terminal that is gone does not end the work of putting things away. ignored:
    the program continues without its terminal, until SIGTERM."""
    pid, terminal = pty.fork()
    if pid == 0:
        if ignored:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.environ["WRITES"] = str(tmp_path / "done")
        os.execv(sys.executable, [sys.executable, "-c", CLOSED])
    shown = b""
    while b"up" not in shown:
        shown += os.read(terminal, 100)
    os.close(terminal)
    if ignored:
        os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (tmp_path / "done").read_text() == "put away"


BEGINS = """\
from console import end_at_signals
end_at_signals("program")
import slow
"""

SLOW_TO_IMPORT = """\
import time
print("importing", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_everything_is_imported_prints_no_traceback(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "slow.py").write_text(SLOW_TO_IMPORT)
    process = subprocess.Popen(
        [sys.executable, "-c", BEGINS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(number)
    assert process.communicate(timeout=30)[1] == "program: interrupted\n"
    assert process.returncode == 130


@pytest.mark.parametrize("program", ["satchel", "satchel-home", "satchel-surrogate"])
def test_a_program_begins_before_what_takes_long_is_imported(program: str) -> None:
    (begins,) = entry_points(group="console_scripts", name=program)
    asked = f"import {begins.module}, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", asked], text=True).split()
    assert "console.startup" in loaded
    assert {"click", "tomllib", "console.program"}.isdisjoint(loaded)


def test_json_is_what_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a", "size": 5000, "none": None, "ok": True}]
    show(rows, as_json=True)
    assert json.loads(capsys.readouterr().out) == rows


def test_bytes_are_read_as_such_wherever_the_key_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show({"size": 2048, "bytes_before": 2048, "sent_bytes_if_all": 2048}, as_json=False)
    assert [line.split()[-2:] for line in capsys.readouterr().out.splitlines()] == [
        ["2.0", "KiB"]
    ] * 3


def test_nothing_is_cut_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    key = "".join(chr(65 + number % 26) for number in range(200))
    show({"signer": f"ssh-ed25519 {key}"}, as_json=False)
    show([{"name": key, "state": "ready", "where": "home"}], as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= 80 for line in lines)
    said = "".join(re.findall("[A-Z]", re.sub(r"\x1b\[[0-9;]*m", "", "".join(lines))))
    assert said == key + key


def test_no_heading_and_no_id_is_broken_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    row = {"service": "guestbook", "checkpoint": 32 * "ab", "last_logged": 12, "client": None}
    show([row, row | {"service": "notes"}], as_json=False)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert [line.split() for line in shown.splitlines()[:4]] == [
        ["service", "guestbook"],
        ["checkpoint", 32 * "ab"],
        ["last", "logged", "12"],
        [],
    ]
    show({"ports": [{"front": "http", "port": 80}, {"front": "vnc"}]}, as_json=False)
    assert "{" not in capsys.readouterr().out


def test_a_table_has_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 500
    rows = [{"name": "a", "media_bytes": 5 << 20, "failure": f"[red]no[/] [/nope] {long}"}]
    show([*rows, {"name": "b"}], as_json=False)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "media", "bytes", "failure"]
    assert first.split() == ["a", "5.0", "MiB", "[red]no[/]", "[/nope]", long]
    assert second.split() == ["b", "-", "-"]


def test_a_table_of_one_thing(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"ok": False, "seconds": 1.23456, "pack_bytes": 12, "sub": {"x": 1}, "list": [1, 2]}
    value |= {"bytes_before": 2048, "tuple": ("last", "daily"), "none": ()}
    show(value, as_json=False)
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert words == [
        ["ok", "no"],
        ["seconds", "1.23"],
        ["pack", "bytes", "12", "B"],
        ["sub", "x", "1"],
        ["list", "1,", "2"],
        ["bytes", "before", "2.0", "KiB"],
        ["tuple", "last,", "daily"],
        ["none", "-"],
    ]


def test_columns_choose_and_order(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"a": 1, "b": 2, "c": 3}], as_json=False, columns=("c", "a"))
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["c", "a"],
        ["3", "1"],
    ]
    show([], as_json=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 29, "1.5 GiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("a step") as progress:
        progress(1, 2)
        progress(2, 2)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


DAEMON = """\
import click, sys
from console import run_program, serve_until_signal
@click.command()
def command():
    try:
        serve_until_signal("up")
    finally:
        print("put away", flush=True)
run_program(command, "daemon")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_daemon_that_is_told_to_end_has_not_failed(
    short_path: Path, number: signal.Signals, code: int
) -> None:
    """As systemd starts it: it hears when the daemon is up, and that it is ending."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(short_path / "notify"))
        manager.settimeout(60)
        process = subprocess.Popen(
            [sys.executable, "-c", DAEMON],
            stdout=subprocess.PIPE,
            env=os.environ | {"NOTIFY_SOCKET": str(short_path / "notify")},
            text=True,
        )
        assert manager.recv(64) == b"READY=1"
        process.send_signal(number)
        assert process.communicate(timeout=60)[0] == "put away\n"
        assert process.returncode == code
        assert manager.recv(64) == b"STOPPING=1"


def test_a_peer_forges_no_line_of_the_log() -> None:
    forged = "x\n2026-01-01 00:00:00,000 INFO surrogate: admitted\r2026 y\x1b[2J"
    program = (
        "import logging, sys; from console.logs import log_to_stderr; log_to_stderr(verbose=False);"
        "logging.info('asked: %s', sys.argv[1])\n"
        "try: raise ValueError(sys.argv[1])\n"
        "except ValueError: logging.exception('it failed')"
    )
    argv = [sys.executable, "-c", program, forged]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stderr.splitlines()
    events = [line for line in lines if not line.startswith("    ")]
    assert [line.rpartition(": ")[2] for line in events] == ["x", "it failed"]
    assert not any("\x1b" in line for line in lines)
