# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of answers without a terminal: in a pipe, a log, a file."""

import json
import os
import shlex
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.needs import requires
from tests.repository.tree import ROOT

BIN = Path(sys.executable).parent


def person(folder: Path, **more: str) -> dict[str, str]:
    """The environment of somebody who has nothing but this folder."""
    places = {
        f"XDG_{kind}": str(folder / kind.lower())
        for kind in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR")
    }
    return os.environ | places | {"COLUMNS": "80", "NO_COLOR": "1"} | more


def said(
    folder: Path, *words: str | Path, language: str = "C", **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / words[0], *words[1:]],
        env=person(folder, LC_ALL=language, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("language", ["C", "de_DE.UTF-8"])
def test_lines_end_where_their_text_ends_and_nothing_is_empty(
    tmp_path: Path, language: str
) -> None:
    made = said(tmp_path, "satchel-home", "init", language=language)
    lines = [
        *made.stdout.splitlines(),
        *said(tmp_path, "satchel-home", "verify").stdout.splitlines(),
    ]
    assert len(lines) > 8
    assert [line for line in lines if line != line.rstrip()] == []
    assert "lost             -" in lines


def test_a_list_in_the_settings_is_shown_as_it_is_written(tmp_path: Path) -> None:
    written = '["guestbook", "notes"]'
    assert said(tmp_path, "satchel", "config", "set", "plugged-services", written).returncode == 0
    shown = said(tmp_path, "satchel", "config", "get", "plugged-services", language="C.UTF-8")
    assert shown.stdout.strip() == written
    wrong = said(tmp_path, "satchel", "config", "set", "plugged-services", "guestbook").stderr
    assert 'must be a list, such as ["notes"]' in wrong
    assert str(tmp_path / "config_home" / "satchel" / "client.toml") in wrong


def test_an_answer_with_nothing_in_it_says_what_to_do(tmp_path: Path) -> None:
    assert "`satchel pair" in said(tmp_path, "satchel", "surrogates").stderr
    assert "no session" in said(tmp_path, "satchel", "stats").stderr
    assert "`satchel config set media FOLDER`" in said(tmp_path, "satchel", "media", "ls").stderr
    assert said(tmp_path, "satchel", "config", "set", "media", "/gone").returncode == 0
    assert "plug in the one of /gone" in said(tmp_path, "satchel", "media", "ls").stderr


def test_a_phrase_is_asked_for_on_a_terminal_only(tmp_path: Path) -> None:
    done = said(tmp_path, "satchel", "media", "unlock", str(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "--phrase" in done.stderr


def test_a_surrogate_that_does_not_run_is_named_and_not_its_token(tmp_path: Path) -> None:
    done = said(tmp_path, "satchel-surrogate", "status")
    assert (done.returncode, "satchel-surrogate serve" in done.stderr) == (8, True)


MISTAKES = {
    ("satchel", "runn"): (2, "no such command 'runn'; did you mean 'run', or see `satchel --help`"),
    ("satchel-home", "--stor", "x", "ls"): (
        2,
        "no such option '--stor'; did you mean '--store', or see `satchel-home --help`",
    ),
    ("satchel", "stop", "notes"): (
        3,
        "no session of notes runs here; `satchel whereis notes` says where it is used",
    ),
    ("satchel", "evidence", "verify", "gone"): (3, "no proof at gone: No such file or directory"),
    ("satchel-home", "media", "init", "gone"): (
        3,
        "there is no folder gone; mount the medium first",
    ),
}
"""What each says in one line."""


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told_once_and_with_what_to_do(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, line = MISTAKES[words]
    done = said(tmp_path, *words)
    assert (done.returncode, done.stderr) == (code, f"{words[0]}: {line}\n")


@pytest.mark.parametrize("words", ["status", "launch notes", "service ls", "share ls"])
def test_without_a_home_nobody_is_sent_to_start_its_server(tmp_path: Path, words: str) -> None:
    done = said(tmp_path, "satchel-home", *words.split())
    assert done.returncode == 3
    assert done.stderr.startswith(f"satchel-home: no home at {tmp_path}")
    assert done.stderr.endswith("; `satchel-home init` makes one\n")
    assert said(tmp_path, "satchel-home", "init").returncode == 0
    done = said(tmp_path, "satchel-home", *words.split())
    assert (done.returncode, "`satchel-home serve`" in done.stderr) == (8, True)


EMPTY = {
    ("satchel-home", "ls"): "satchel-home import FILE NAME",
    ("satchel-home", "service", "ls"): "satchel-home service add NAME",
    ("satchel-home", "share", "ls"): "satchel-home share add FOLDER",
    ("satchel-home", "share", "grants"): "satchel-home share grant SHARE SERVICE SURROGATE",
}
"""Lists of a home that has nothing, and what begins each."""


def test_an_empty_list_of_home_says_which_command_begins_it(
    short_path: Path,
) -> None:
    assert said(short_path, "satchel-home", "init").returncode == 0
    home = subprocess.Popen(
        [BIN / "satchel-home", "serve"],
        env=person(short_path, LC_ALL="C"),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert home.stderr is not None
    try:
        assert any("answers at" in line for line in home.stderr)
        for words, begins in EMPTY.items():
            done = said(short_path, *words)
            assert (done.returncode, done.stdout) == (0, ""), words
            assert f"`{begins}`" in done.stderr
        missing = said(short_path, "satchel-home", "launch", "guestbook").stderr
        assert "no service guestbook: there is none yet; `satchel-home service add`" in missing
    finally:
        home.terminate()
        home.wait()
        home.stderr.close()


@pytest.mark.parametrize("words", [("ls",), ("whereis",), ("whereis", "guestbook")])
def test_no_header_stands_above_an_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = said(tmp_path, "satchel", *words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)


def test_a_moment_is_by_the_clock_of_who_asks_without_parts_of_a_second(tmp_path: Path) -> None:
    """As the days are that `forget` counts."""
    (tmp_path / "disk").write_bytes(b"content" * 4096)
    said(tmp_path, "satchel-home", "init")
    said(tmp_path, "satchel-home", "import", tmp_path / "disk", "disk")
    shown = [
        said(tmp_path, "satchel-home", "ls", TZ=zone).stdout.splitlines()[1].split()[-2:]
        for zone in ("UTC", "JST-9")
    ]
    assert [len(word) for words in shown for word in words] == [10, 8] * 2
    utc, tokyo = (datetime.fromisoformat(" ".join(words)) for words in shown)
    assert tokyo - utc == timedelta(hours=9)
    made = json.loads(said(tmp_path, "satchel-home", "ls", "--json", TZ="JST-9").stdout)
    assert made[0]["created"].endswith("+00:00")


@pytest.mark.parametrize(
    ("name", "characters", "shown"),
    [(b"b\xff", "utf-8", "b\\udcff"), ("日".encode(), "iso8859-9", "\\u65e5")],
)
def test_a_name_that_the_character_set_lacks_is_shown_by_number(
    tmp_path: Path, name: bytes, characters: str, shown: str
) -> None:
    """As Python has it in the locales tr_TR and ja_JP, which this machine need not have."""
    odd = tmp_path / os.fsdecode(name)
    (tmp_path / "disk").write_bytes(b"content" * 4096)
    said(tmp_path, "satchel-home", "init")
    said(tmp_path, "satchel-home", "import", tmp_path / "disk", "disk")
    locale = {"language": "C.UTF-8", "PYTHONIOENCODING": f"{characters}:strict"}
    done = said(tmp_path, "satchel-home", "export", "disk", odd, **locale)
    assert (done.returncode, done.stderr, odd.stat().st_size) == (0, "", 28672)
    assert f"/{shown}" in done.stdout


@pytest.mark.parametrize(("characters", "drawn"), [("utf-8", True), ("iso8859-9", False)])
@requires("script")
def test_a_qr_code_is_drawn_where_the_terminal_can(
    tmp_path: Path, characters: str, drawn: bool
) -> None:
    show = (
        "from console.invitation import show_code;"
        "show_code('satchel://pair?code=1', '12345678', 'here', to_do='satchel pair')"
    )
    command = shlex.join([sys.executable, "-c", show])
    argv = ["script", "-qec", command, "/dev/null"]
    environment = person(tmp_path, PYTHONIOENCODING=f"{characters}:backslashreplace")
    seen = subprocess.run(
        argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True, cwd=ROOT
    ).stdout.decode(characters)
    assert ("\u2588" in seen, "\\u2588" in seen) == (drawn, False)
    assert "satchel pair 1234-5678 --at here" in seen


def test_the_folder_of_the_medium_is_the_same_wherever_a_command_runs(tmp_path: Path) -> None:
    done = said(tmp_path, "satchel", "config", "set", "media", "stick")
    assert (done.returncode, "/media/stick" in done.stderr) == (2, True)
    assert said(tmp_path, "satchel", "config", "get", "media").stdout.strip() == ""


def test_a_folder_that_is_a_medium_already_is_told_just_that(tmp_path: Path) -> None:
    said(tmp_path, "satchel-home", "init")
    assert "stays on this disk" in said(tmp_path, "satchel-home", "media", "init", tmp_path).stderr
    again = said(tmp_path, "satchel-home", "media", "init", tmp_path).stderr
    assert "there is one already" in again
    assert len(again.splitlines()) == 1


def test_sentences_are_grammatical(tmp_path: Path) -> None:
    assert "cannot name an image" in said(tmp_path, "satchel-home", "image", "try", "X").stderr
    assert "no host is named" in said(tmp_path, "satchel", "pair", "1234-5678").stderr


def test_a_home_that_is_not_there_is_all_that_serve_speaks_of(tmp_path: Path) -> None:
    served = said(tmp_path, "satchel-home", "serve")
    assert served.returncode == 3
    (line,) = served.stderr.splitlines()
    assert "`satchel-home init`" in line


@pytest.mark.parametrize(("program", "code"), [("satchel-home", 2), ("satchel-surrogate", 9)])
def test_a_door_that_somebody_types_says_who_runs_it(
    tmp_path: Path, program: str, code: int
) -> None:
    door = said(tmp_path, program, "door")
    assert (door.returncode, door.stdout) == (code, "")
    assert "sshd-config` prints" in door.stderr
    assert "Errno" not in door.stderr


def test_findings_with_one_remedy_say_it_once(tmp_path: Path) -> None:
    told = said(tmp_path, "satchel", "doctor").stdout
    remedy = "    pair: `satchel-home pair` at home, then what it shows here"
    assert told.count("fault:") == 2
    assert told.splitlines().count(remedy) == 1


def test_who_removes_a_surrogate_is_not_told_to_pair_with_it(tmp_path: Path) -> None:
    removed = said(tmp_path, "satchel", "surrogate", "rm", "cafe")
    assert removed.returncode == 3
    assert removed.stderr == "satchel: no surrogate cafe: known: none\n"


def test_a_path_of_one_surrogate_says_what_a_path_is(tmp_path: Path) -> None:
    assert said(tmp_path, "satchel", "surrogate", "add", "cafe", "me@cafe").returncode == 0
    refused = said(tmp_path, "satchel", "path", "add", "cafe")
    assert refused.returncode == 2
    assert "in the order" in refused.stderr


def test_a_host_without_an_address_is_not_asked_for_a_new_code(tmp_path: Path) -> None:
    paired = said(tmp_path, "satchel", "pair", "1234-5678", "--at", "nosuch.invalid")
    assert paired.returncode == 8
    assert "no host nosuch.invalid" in paired.stderr
    assert "new code" not in paired.stderr


def test_a_name_that_is_no_recipe_may_be_meant_as_a_folder(tmp_path: Path) -> None:
    built = said(tmp_path, "satchel-home", "image", "build", "guestbook")
    assert built.returncode == 3
    assert "name a folder that has a recipe.toml" in built.stderr


def test_nothing_to_forget_is_said(tmp_path: Path) -> None:
    assert said(tmp_path, "satchel-home", "init").returncode == 0
    forgotten = said(tmp_path, "satchel-home", "forget", "--keep-last", "1")
    assert "nothing of which to forget" in forgotten.stderr
    rows = said(tmp_path, "satchel-home", "forget", "--keep-last", "1", "--json").stdout
    assert json.loads(rows) == {"forgotten": [], "kept": []}
