# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What packages have beside the programs: man pages, what real shells complete, systemd's units."""

import contextlib
import os
import pty
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import requires
from tests.package.installed import known_to
from tests.repository import tree

PROGRAMS = ("satchel", "satchel-home", "satchel-surrogate")
BIN = Path(sys.executable).parent
SYSTEM_UNITS = sorted((tree.ROOT / "debian").glob("*.service"))
USER_UNITS = sorted((tree.ROOT / "debian" / "user").glob("*.service"))

SHOWN_SECONDS = 60.0


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what scripts/manual.py makes."""
    folder = tmp_path_factory.mktemp("manual")
    argv = [sys.executable, str(tree.ROOT / "scripts" / "manual.py"), str(folder)]
    subprocess.run(argv, check=True, env=os.environ | {"PYTHONPATH": str(tree.ROOT)})
    return folder


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of somebody with a home that has a volume, and a client that knows a site."""
    folder = tmp_path_factory.mktemp("person")
    environment = os.environ | {
        "HOME": str(folder),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "TERM": "dumb",
        **{
            f"XDG_{kind}": str(folder / kind.lower())
            for kind in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR")
        },
    }
    (folder / "disk.raw").write_bytes(b"content" * 4096)
    for words in (["init"], ["import", str(folder / "disk.raw"), "kept-volume"]):
        argv = [str(BIN / "satchel-home"), *words]
        subprocess.run(argv, check=True, env=environment, capture_output=True)
    (folder / "config_home/satchel").mkdir(exist_ok=True)
    settings = '[surrogates.corner-cafe]\ndestination = "me@there"\nsocket = "/run/s"\n'
    (folder / "config_home/satchel/client.toml").write_text(settings)
    return environment


LINES = {
    "satchel-home export ke": "kept-volume",
    "satchel-home image build not": "notes",
    "satchel run guestbook --at corner": "corner-cafe",
    "satchel-surrogate stat": "status",
}
"""What somebody types, and what has to come of it."""

EVERY_LINE = pytest.mark.parametrize("line", LINES)


@pytest.mark.parametrize("program", PROGRAMS)
@requires("mandoc")
def test_a_man_page_is_well_formed_and_has_every_command(manual: Path, program: str) -> None:
    pages = sorted((manual / "man" / program).glob("*.1"))
    argv = ["mandoc", "-T", "lint", "-W", "warning", *map(str, pages)]
    checked = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert checked.stdout + checked.stderr == ""
    reference = tree.text(Path("docs/commands.md"))
    usages = [u for u in re.findall(r"^### `(.+)`$", reference, re.M) if u.split()[0] == program]
    assert len(usages) > 3
    shown = page_text(manual / "man" / program / f"{program}.1")
    assert [usage for usage in usages if usage not in shown] == []
    for usage in usages:
        name = "-".join(usage.split()[:2])
        assert name in PROGRAMS or usage in page_text(manual / "man" / program / f"{name}.1")
        assert f"{name}(1)" in shown


@requires("mandoc")
def test_man_pages_list_every_setting(manual: Path) -> None:
    reference = tree.text(Path("docs/settings.md"))
    shown = [page_text(manual / "man" / program / f"{program}.1") for program in PROGRAMS]
    keys = re.findall(r"^- `(\w+)` \(([\w ,]+?)(?:, default [^)]*)?\): ", reference, re.M)
    assert len(keys) > 80
    assert [key for key in keys if not any(" ".join(key) in text for text in shown)] == []


def page_text(page: Path) -> str:
    """As a person sees it, without what makes it bold, in one line."""
    argv = ["mandoc", "-T", "ascii", str(page)]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return " ".join(re.sub(r".\x08", "", text).split())


@EVERY_LINE
def test_bash_completes(manual: Path, person: dict[str, str], line: str) -> None:
    words = line.split()
    function = "_" + words[0].replace("-", "_") + "_completion"
    script = (
        f"source {manual}/bash/{words[0]}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        f'complete -p {words[0]} >/dev/null; {function} {words[0]}; echo "${{COMPREPLY[@]}}"'
    )
    argv = ["bash", "--norc", "-c", script]
    said = subprocess.run(argv, env=person, check=True, capture_output=True, text=True).stdout
    assert said.split() == [LINES[line]]


@EVERY_LINE
@requires("fish")
def test_fish_completes(manual: Path, person: dict[str, str], line: str) -> None:
    script = f"source {manual}/fish/{line.split(maxsplit=1)[0]}.fish; complete -C '{line}'"
    argv = ["fish", "--no-config", "-c", script]
    said = subprocess.run(argv, env=person, check=True, capture_output=True, text=True).stdout
    assert [row.split("\t")[0] for row in said.splitlines()] == [LINES[line]]


@contextlib.contextmanager
def terminal(argv: list[str], environment: dict[str, str]) -> Iterator[int]:
    """A program on a terminal of its own; the descriptor of this end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        argv, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        yield ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@EVERY_LINE
@requires("zsh")
def test_zsh_completes(manual: Path, person: dict[str, str], line: str) -> None:
    begin = f"fpath=({manual}/zsh $fpath); autoload -U compinit; compinit -u -D; PS1=; echo r''eady"
    with terminal(["zsh", "-f", "-i"], person) as shell:
        os.write(shell, begin.encode() + b"\n")
        assert_shows(shell, "ready")
        os.write(shell, line.encode() + b"\t")
        assert_shows(shell, LINES[line])


def assert_shows(shell: int, text: str) -> None:
    """Sooner or later."""
    said = b""
    os.set_blocking(shell, False)
    deadline = time.monotonic() + SHOWN_SECONDS
    while text.encode() not in said:
        assert time.monotonic() < deadline, said
        with contextlib.suppress(BlockingIOError):
            said += os.read(shell, 4096)
        time.sleep(0.01)


@pytest.mark.parametrize("unit", [*SYSTEM_UNITS, *USER_UNITS], ids=lambda unit: str(unit.name))
@requires("systemd-analyze")
def test_systemd_understands_a_unit(tmp_path: Path, unit: Path) -> None:
    """With the programs where they are here."""
    copy = tmp_path / unit.name.replace("@.", "@instance.")
    copy.write_text(unit.read_text().replace("=/usr/bin/satchel", f"={BIN}/satchel"))
    who = ["--user"] if unit in USER_UNITS else ["--system"]
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *who, copy],
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (checked.returncode, checked.stdout + known_to(checked.stderr)) == (0, "")


NEVER_STARTS = {
    "satchel-home.service": ["satchel-home", "serve"],
    "satchel-mount@.service": ["satchel", "mount", "photos", "folder"],
    "satchel@.service": ["satchel", "run", "notes"],
}
"""By units of a person, who has made no home and paired with none."""


@pytest.mark.parametrize("unit", NEVER_STARTS)
def test_what_cannot_start_is_not_started_again_and_again(tmp_path: Path, unit: str) -> None:
    (text,) = (path.read_text() for path in USER_UNITS if path.name == unit)
    program, *arguments = NEVER_STARTS[unit]
    environment = os.environ | {"HOME": str(tmp_path), **xdg(tmp_path)}
    argv = [str(BIN / program), *arguments]
    ended = subprocess.run(argv, env=environment, check=False, timeout=120, cwd=tmp_path)
    (codes,) = re.findall(r"^RestartPreventExitStatus=(.+)$", text, re.MULTILINE)
    assert str(ended.returncode) in codes.split()


def xdg(folder: Path) -> dict[str, str]:
    """A person's folders, below this one."""
    kinds = ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR")
    return {f"XDG_{kind}": str(folder / kind.lower()) for kind in kinds}


def test_a_home_of_ones_own_starts_and_ends_as_its_unit_says(short_path: Path) -> None:
    """By its own command, in a manager's place: `Type=notify`, and SIGTERM is success."""
    (unit,) = (path for path in USER_UNITS if path.name == "satchel-home.service")
    text = unit.read_text()
    assert "\nType=notify\n" in text
    (command,) = re.findall(r"^ExecStart=/usr/bin/(.+)$", text, re.MULTILINE)
    environment = os.environ | {
        "NOTIFY_SOCKET": str(short_path / "n"),
        **xdg(short_path),
    }
    argv = [str(BIN / "satchel-home"), "init"]
    subprocess.run(argv, check=True, env=environment, capture_output=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(environment["NOTIFY_SOCKET"])
        manager.settimeout(SHOWN_SECONDS)
        program, *words = command.split()
        home = subprocess.Popen([BIN / program, *words], env=environment, stdin=subprocess.DEVNULL)
        try:
            assert manager.recv(4096) == b"READY=1"
            home.terminate()
            assert manager.recv(4096) == b"STOPPING=1"
            assert home.wait(SHOWN_SECONDS) == 0
        finally:
            home.kill()
            home.wait()
