# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of answers without a terminal: in a pipe, a log, a file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def said(folder: Path, *words: str, language: str = "C") -> subprocess.CompletedProcess[str]:
    places = {
        f"XDG_{kind}": str(folder / kind.lower())
        for kind in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR")
    }
    return subprocess.run(
        [BIN / words[0], *words[1:]],
        env=os.environ | places | {"LC_ALL": language, "COLUMNS": "80", "NO_COLOR": "1"},
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


def test_a_phrase_is_asked_for_on_a_terminal_only(tmp_path: Path) -> None:
    done = said(tmp_path, "satchel", "media", "unlock", str(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "--phrase" in done.stderr


def test_a_surrogate_that_does_not_run_is_named_and_not_its_token(tmp_path: Path) -> None:
    done = said(tmp_path, "satchel-surrogate", "status")
    assert (done.returncode, "satchel-surrogate serve" in done.stderr) == (8, True)
