# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""SQLite: household accounts. A person enters what was spent; a thread beside it keeps a chart up
to date.

Threads: `entry` (what the person does) and `chart`. Procedures: `statement` (sums by month, written
into the database) and `export` (a CSV file). SQLite as Debian configures it: a rollback journal,
deleted after each transaction.
"""

from __future__ import annotations

import csv
import random
import sqlite3
import threading
from pathlib import Path

from papers.ofs.uses.marks import main, procedure, role, think

ENTRIES = 90
KINDS = ("food", "rent", "travel", "books", "garden", "music", "doctor", "gifts")


def prepare(folder: Path) -> None:
    """Three years of entries."""
    dice = random.Random("ledger before")
    with sqlite3.connect(folder / "ledger.db") as ledger:
        ledger.executescript(
            "create table entry (id integer primary key, day int, kind text, cents int, note text);"
            "create index by_day on entry (day);"
            "create table statement (month int primary key, cents int);"
        )
        rows = [(day, *_spent(dice)) for day in range(1100) for _ in range(dice.randint(0, 3))]
        ledger.executemany("insert into entry (day, kind, cents, note) values (?, ?, ?, ?)", rows)


def _spent(dice: random.Random) -> tuple[str, int, str]:
    note = " ".join(dice.choices(["market", "train", "paid", "for", "the", "aunt", "again"], k=8))
    return dice.choice(KINDS), dice.randint(50, 20_000), note


def use(folder: Path) -> None:
    dice = random.Random("ledger")
    done = threading.Event()
    chart = threading.Thread(target=_keep_chart, args=(folder, done))
    chart.start()
    role("entry")
    ledger = sqlite3.connect(folder / "ledger.db", timeout=60)
    for number in range(ENTRIES):
        think(dice, 0.6)
        _enter(ledger, dice, 1100 + number // 4)
        if number % 5 == 4 and (folder / "chart.txt").exists():
            (folder / "chart.txt").read_bytes()
        if number % 12 == 11:
            with procedure("statement"):
                _state(ledger, (1100 + number // 4) // 30)
        if number % 30 == 29:
            with procedure("export"):
                _export(ledger, folder / "export.csv")
    done.set()
    chart.join()


def _enter(ledger: sqlite3.Connection, dice: random.Random, day: int) -> None:
    """Mostly a new entry; now and then one is corrected or looked up."""
    what = dice.random()
    with ledger:
        if what < 0.6:
            row = (day, *_spent(dice))
            ledger.execute("insert into entry (day, kind, cents, note) values (?, ?, ?, ?)", row)
        elif what < 0.8:
            ledger.execute(
                "update entry set cents = cents + 1 where id ="
                " (select id from entry where day >= ? order by id limit 1)",
                (day - dice.randint(0, 40),),
            )
        else:
            where = (f"%{dice.choice(['aunt', 'train'])}%", day - 200)
            ledger.execute("select * from entry where note like ? and day > ?", where).fetchall()


def _state(ledger: sqlite3.Connection, month: int) -> None:
    with ledger:
        ledger.execute("delete from statement where month >= ?", (month - 1,))
        ledger.execute(
            "insert into statement select day / 30, sum(cents) from entry"
            " where day / 30 >= ? group by day / 30",
            (month - 1,),
        )


def _export(ledger: sqlite3.Connection, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(ledger.execute("select * from entry where day > 1000"))


def _keep_chart(folder: Path, done: threading.Event) -> None:
    """Sums of the last months into a file, every two seconds."""
    role("chart")
    ledger = sqlite3.connect(folder / "ledger.db", timeout=60)
    while not done.wait(2.0):
        sums = ledger.execute(
            "select kind, sum(cents) from entry where day > 1040 group by kind"
        ).fetchall()
        lines = [f"{kind:8} {'#' * (cents // 20_000)}\n" for kind, cents in sums]
        (folder / "chart.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(prepare, use)
