# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The recorded workloads: what is done in which guest.

    python -m papers.workloads.record [NAME...] [--run training|held-out] [--to FOLDER]
    python -m papers.workloads.record --statistics

The first boots and resumes real guests and writes their recordings. Takes about two minutes each,
and once three more for an image with applications of Debian. The runs of a workload differ in what
is asked and in which order. `--statistics` prints a table.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

import images
from console import run_program
from images import PHRASES, Recipe, speak
from papers.workloads.guest import DISK, RAM, Guest, Surrogate
from papers.workloads.recording import FOLDER, IDLE, RUNS, STEADY, Recording
from replay import agent_program
from replica import MachineSnapshot
from testbed import built

RECIPES = Path(__file__).resolve().parent / "recipes"
APPS = "apps"
LITTLE_MIB = 96
"""Memory of a guest that has to read its files again."""

IDLE_SECONDS = 4.0
LIVES = 4
STEADY_OPERATIONS = 12

Workload = Callable[[Surrogate, random.Random], None]
Work = Callable[[Guest, random.Random], None]


def _use_notes(guest: Guest, dice: random.Random) -> None:
    """Each kind of operation once, in some order, then a mixture of them."""
    words = dice.sample(["apples", "aunt", "train", "rent", "garden", "ticket", "piano"], 4)

    def add() -> None:
        text = " ".join(dice.choices(words, k=dice.randrange(5, 200)))
        body = f'{{"title": "{dice.choice(words)}", "text": "{text}"}}'
        guest.operate("add", "POST", "/api/notes", body.encode())

    def edit() -> None:
        body = f'{{"title": "edited", "text": "{dice.choice(words)}"}}'
        guest.operate("edit", "PUT", "/api/notes/1", body.encode())

    kinds: list[Callable[[], None]] = [
        edit,
        lambda: guest.operate("list", "GET", "/api/notes"),
        lambda: guest.operate("search", "GET", f"/api/notes?q={dice.choice(words)}"),
        lambda: guest.operate("page", "GET", "/"),
        lambda: guest.operate("export", "GET", "/export"),
    ]
    dice.shuffle(kinds)
    add()
    for kind in kinds:
        kind()
    guest.mark(STEADY)
    for _ in range(STEADY_OPERATIONS):
        dice.choice([add, add, *kinds])()
    _rest(guest)


def _use_speech(guest: Guest, dice: random.Random) -> None:
    for number, phrase in enumerate(dice.sample(PHRASES, 3)):
        guest.operate("recognise", "POST", "/recognize", speak(phrase), "audio/wav")
        if number == 0:
            guest.mark(STEADY)
    _rest(guest)


def _rest(guest: Guest) -> None:
    guest.mark(IDLE)
    time.sleep(IDLE_SECONDS)


def _service(image: str, use: Work) -> Workload:
    """A service that is carried to the same surrogate again and again."""

    def work(surrogate: Surrogate, dice: random.Random) -> None:
        guest = surrogate.boot(image)
        use(guest, dice)
        _carry(surrogate, guest, use, dice)

    return work


def _carry(surrogate: Surrogate, guest: Guest, use: Work, dice: random.Random) -> None:
    """LIVES of it, with a new checkpoint before each."""
    for _ in range(LIVES):
        guest = surrogate.resume(guest, guest.freeze())
        use(guest, dice)
    guest.stop()


def _boot(image: str, use: Work) -> Workload:
    def work(surrogate: Surrogate, dice: random.Random) -> None:
        guest = surrogate.boot(image, recorded=True)
        use(guest, dice)
        guest.stop()

    return work


def _cafe(surrogate: Surrogate, dice: random.Random) -> None:
    """Two services of one person and a guest of somebody else, at one hotspot for days."""
    uses: dict[str, Work] = {"notes": _use_notes, "speech": _use_speech, APPS: _use_python}
    at: dict[str, tuple[Guest, MachineSnapshot]] = {}
    for image, use in uses.items():
        guest = surrogate.boot(image, LITTLE_MIB if image == APPS else 0)
        if image != APPS:
            use(guest, dice)
        at[image] = guest, guest.freeze()
    visits = ["notes", "speech", "notes", APPS, "speech", "notes", APPS]
    dice.shuffle(visits)
    for image in visits:
        guest = surrogate.resume(*at[image])
        uses[image](guest, dice)
        at[image] = guest, guest.freeze()


def _applications(prepare: Sequence[str], use: Work) -> Workload:
    """Programs in a guest of little memory that is carried as services are. prepare: what is on its
    disk before that."""

    def use_and_rest(guest: Guest, dice: random.Random) -> None:
        use(guest, dice)
        _rest(guest)

    def work(surrogate: Surrogate, dice: random.Random) -> None:
        guest = surrogate.boot(APPS, LITTLE_MIB)
        for script in prepare:
            guest.run("prepare", script)
        _carry(surrogate, guest, use_and_rest, dice)

    return work


def _scripts(
    scripts: dict[str, str], times: int, fill: Callable[[random.Random], str] = lambda dice: ""
) -> Work:
    """Each of the scripts, then `times` of them as people use programs: some much more often. In a
    script, @ becomes what `fill` gives, %% a number from 1 to 6."""

    def use(guest: Guest, dice: random.Random) -> None:
        kinds = list(scripts)
        dice.shuffle(kinds)
        weights = [1 / rank for rank in range(1, len(kinds) + 1)]
        chosen = dice.choices(kinds, weights, k=times)
        for number, kind in enumerate([*kinds, *chosen]):
            if number == len(kinds):
                guest.mark(STEADY)
            script = scripts[kind].replace("%%", str(dice.randint(1, 6)))
            guest.run(kind, script.replace("@", fill(dice)))

    return use


def _word(dice: random.Random) -> str:
    return dice.choice(["open", "return", "package", "close", "error", "print", "length", "match"])


def _number(dice: random.Random) -> str:
    """Small ones much more often."""
    return str(min(39_999, int(dice.paretovariate(0.6) * 40)))


_GIT = "cd /srv/tree && export HOME=/srv && "
GIT_PREPARE = (
    "mkdir -p /srv/tree && cp -r /usr/share/perl/5.36/Pod /usr/share/perl/5.36/File"
    " /usr/share/perl/5.36/CPAN /usr/share/perl/5.36/Module /usr/share/vim/vim90/syntax"
    " /srv/tree && cd /srv/tree && export HOME=/srv && git config --global user.email a@b"
    " && git config --global user.name a && git init -q && git add . && git commit -qm first"
    ' && for i in 1 2 3 4; do for f in Pod/*.pm File/*.pm; do echo "# $i" >> $f; done;'
    " git commit -qam $i; done",
)
GIT = {
    "status": _GIT + "git status --short | head -3",
    "log": _GIT + "git log --stat | head -40",
    "grep": _GIT + "git grep -c @ | head -5",
    "change": _GIT + "echo '# @' >> Pod/Man.pm && git diff --stat && git commit -qam @",
    "blame": _GIT + "git blame Pod/Man.pm | tail -2",
    "show": _GIT + "git show HEAD~2 | wc -l",
}

_PROGRAM = (
    "mkdir -p /srv/c && cd /srv/c && for i in 1 2 3 4 5 6; do"
    ' { for h in stdio stdlib string time math unistd signal; do echo "#include <$h.h>"; done;'
    ' for j in $(seq 1 40); do echo "int f${i}_$j(int n) { int s = $j; for (int k = 0; k < n; ++k)'
    ' s = s * 31 + strlen(getenv(\\"PATH\\")) * k; return s + printf(\\"%d\\", s); }"; done;'
    " } > $i.c; done; echo 'int f1_1(int); int main(void) { return f1_1(3) == 0; }' > main.c"
)
COMPILE = {
    "compile": "cd /srv/c && gcc -c %%.c",
    "optimise": "cd /srv/c && gcc -O1 -c 3.c",
    "link": "cd /srv/c && gcc -o p 1.c main.c -lm && ./p > /dev/null",
    "preprocess": "cd /srv/c && gcc -E 2.c | grep -c @ || true",
    "scan": "grep -rl @ /usr/include/linux | wc -l",
}

SQLITE_PREPARE = (
    'cd /srv && sqlite3 d.db "pragma journal_mode=off; pragma synchronous=off;'
    " create table t(id integer primary key, k int, v text);"
    " with recursive c(n) as (select 1 union all select n + 1 from c where n < 40000)"
    " insert into t select n, (n * 7919) % 40000, hex(randomblob(400)) from c;"
    ' create index i on t(k);"',
)
_SQL = "cd /srv && sqlite3 d.db "
SQLITE = {
    "lookup": _SQL + '"select length(v) from t where k between @ and @ + 20"',
    "row": _SQL + '"select k from t where id in (@, @ * 3 % 40000, @ * 7 % 40000)"',
    "range": _SQL + '"select sum(length(v)) from t where id between @ and @ + 3000"',
    "count": _SQL + '"select count(*), sum(k) from t where k > @"',
    "all": _SQL + '"select max(length(v)) from t"',
    "update": _SQL + '"update t set v = upper(v) where id = @"',
}

PYTHON = {
    "asyncio": "python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0))'",
    "email": "python3 -c 'import email.message, email.policy, html.parser, smtplib'",
    "xml": "python3 -c 'import xml.etree.ElementTree as e; e.fromstring(\"<a>@</a>\")'",
    "unittest": "python3 -m unittest -q /dev/null || true",
    "json": "python3 -c 'import json, sqlite3, decimal, fractions, statistics'",
    "web": "python3 -c 'import http.client, urllib.request, ssl, socketserver, cgi'",
    "archive": "python3 -c 'import zipfile, tarfile, lzma, bz2, shutil, multiprocessing.pool'",
    "scan": "cat /usr/lib/python3.11/*.py | grep -c @",
}
_use_python = _scripts(PYTHON, 20, _word)

TEXT_PREPARE = ("mkdir -p /srv/x && cp /usr/share/vim/vim90/doc/*.txt /srv/x",)
TEXT = {
    "edit": "cd /srv/x && vim -N -u NONE -es -c '%s/@/*@*/ge' -c 'wq' $(ls | head -%% |"
    " tail -1) || true",
    "manual": "MANWIDTH=80 man -P cat gcc | wc -l",
    "pages": "for p in ls git-log perlre sqlite3; do man -P cat $p | head -3; done",
    "perl": "perl -MPOSIX -MFile::Find -MData::Dumper -e 'find(sub { $n{length $_}++ },"
    ' "/usr/share/perl"); print Dumper(\\%n)\' | wc -l',
    "awk": "cat /srv/x/* | awk '/@/ { n[$1]++ } END { for (w in n) print w }' | wc -l",
    "sort": "cat /srv/x/[a-m]* | tr ' ' '\\n' | sort | uniq -c | sort -n | tail -3",
}

ARCHIVE = {
    "tar": "tar -cf - /usr/lib/git-core /usr/share/perl | wc -c",
    "sums": "find /usr/lib/python3.11 -type f | xargs md5sum | tail -1",
    "find": "find / -xdev | wc -l",
    "compress": "gzip -1 -c /usr/bin/vim.basic /usr/bin/perl | wc -c",
    "compare": "cmp /usr/bin/git /usr/lib/git-core/git && diff -rq /usr/share/perl /usr/share/perl",
}

DESKTOP = {
    "git": GIT["log"],
    "grep": GIT["grep"],
    "gcc": "cd /srv/c && gcc -c 4.c",
    "sqlite": "sqlite3 :memory: 'select sqlite_version()'",
    "python": PYTHON["email"],
    "asyncio": PYTHON["asyncio"],
    "vim": "vim -N -u NONE -es -c 'help @' -c 'qa!' || true",
    "manual": "man -P cat git-log | wc -l",
    "perl": TEXT["perl"],
    "tar": "tar -cf - /usr/share/vim | wc -c",
}

WORKLOADS: dict[str, Workload] = {
    "notes": _service("notes", _use_notes),
    "notes-boot": _boot("notes", _use_notes),
    "speech": _service("speech", _use_speech),
    "speech-boot": _boot("speech", _use_speech),
    "git": _applications(GIT_PREPARE, _scripts(GIT, 14, _word)),
    "compile": _applications((_PROGRAM,), _scripts(COMPILE, 14, _word)),
    "sqlite": _applications(SQLITE_PREPARE, _scripts(SQLITE, 40, _number)),
    "python": _applications((), _use_python),
    "text": _applications(TEXT_PREPARE, _scripts(TEXT, 12, _word)),
    "archive": _applications((), _scripts(ARCHIVE, 10)),
    "desktop": _applications((*GIT_PREPARE, _PROGRAM), _scripts(DESKTOP, 24, _word)),
    "cafe": _cafe,
}


def _build() -> None:
    for name in ("notes", "speech"):
        built.built_image(name)
    folder = built.cache_folder() / APPS
    images.build(Recipe.load(RECIPES / APPS), folder, agent=agent_program())


def _record(name: str, run: str, to: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as folder:
        surrogate = Surrogate(Path(folder))
        try:
            began = time.monotonic()
            WORKLOADS[name](surrogate, random.Random(f"{name} {run}"))
            took = time.monotonic() - began
            recording = surrogate.recording(name, run)
        finally:
            surrogate.close()
    path = recording.save(to)
    reads = sum(not access.write for access in recording.accesses)
    yield f"{path.name}: {took:.0f} s, {len(recording.lives)} lives, {reads} reads, "
    yield f"{len(recording.accesses) - reads} writes, {path.stat().st_size} bytes"


HEADING = "| run | lives | seconds | reads | blocks, memory / disks | writes | contents | again |"


def row_of(recording: Recording) -> str:
    """Return a recording's line of the table that `--statistics` prints."""
    asked = [access for access in recording.accesses if not access.write]
    writes = len(recording.accesses) - len(asked)
    blocks = {DISK: 0, RAM: 0}
    for access in asked:
        blocks[access.volume] += access.count
    read = [number for _, numbers in recording.reads() for number in numbers]
    distinct = len(set(read))
    seconds = sum(access.gap for access in recording.accesses)
    cells = [
        f"{recording.workload} {recording.run}",
        f"{len(recording.lives)}",
        f"{seconds:.0f}",
        f"{len(asked)}",
        f"{blocks[RAM]} / {blocks[DISK]}",
        f"{writes}",
        f"{distinct}",
        f"{1 - distinct / len(read):.0%}",
    ]
    return f"| {' | '.join(cells)} |"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(WORKLOADS)))
@click.option("--run", "runs", type=click.Choice(RUNS), multiple=True, help="Only that run.")
@click.option("--to", type=click.Path(path_type=Path, file_okay=False), default=FOLDER)
@click.option("--statistics", is_flag=True, help="Only tell of those that there are.")
def program(names: tuple[str, ...], runs: tuple[str, ...], to: Path, statistics: bool) -> None:
    """Record the workloads of these NAMES, or all."""
    if statistics:
        click.echo(HEADING)
        for path in sorted(to.glob("*.trace")):
            click.echo(row_of(Recording.load(path)))
        return
    _build()
    for name in names or WORKLOADS:
        for run in runs or RUNS:
            click.echo("".join(_record(name, run, to)))


if __name__ == "__main__":
    run_program(program, "papers.workloads.record")
