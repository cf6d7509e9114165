# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A mail store: a Maildir and archives in mbox, by Python's mailbox.

Threads: `delivery` (mail comes), `filter` (looks at each, writes an index), `reader` (the person).
Procedures of the person: `search` (every message is read) and `archive` (old ones go from the
Maildir into an mbox file).
"""

from __future__ import annotations

import mailbox
import random
import threading
from email.message import EmailMessage
from pathlib import Path

from papers.ofs.uses.marks import main, procedure, role, think

BEFORE, COMING = 60, 70
READ = 75
WORDS = ("meeting", "invoice", "holiday", "garden", "report", "train", "photo", "budget", "ticket")


def prepare(folder: Path) -> None:
    dice = random.Random("mail before")
    box = mailbox.Maildir(folder / "Mail", create=True)
    for number in range(BEFORE):
        message = mailbox.MaildirMessage(_message(dice, number))
        message.set_subdir("cur")
        message.set_flags("S")
        box.add(message)
    archive = mailbox.mbox(folder / "archive.mbox")
    for number in range(BEFORE):
        archive.add(_message(dice, number))
    archive.close()


def _message(dice: random.Random, number: int) -> EmailMessage:
    message = EmailMessage()
    message["From"] = f"{dice.choice('abcdefgh')}@example.org"
    message["To"] = "me@example.org"
    message["Subject"] = f"{dice.choice(WORDS)} {number}"
    message["Message-ID"] = f"<{number}.{dice.getrandbits(40)}@example.org>"
    message.set_content(" ".join(dice.choices(WORDS, k=int(dice.paretovariate(1.1) * 60) % 4000)))
    return message


def use(folder: Path) -> None:
    (folder / "index.txt").touch()
    done = threading.Event()
    others = [
        threading.Thread(target=_deliver, args=(folder,)),
        threading.Thread(target=_filter, args=(folder, done)),
    ]
    for thread in others:
        thread.start()
    _read(folder)
    done.set()
    for thread in others:
        thread.join()


def _deliver(folder: Path) -> None:
    role("delivery")
    dice = random.Random("mail comes")
    box = mailbox.Maildir(folder / "Mail")
    for number in range(COMING):
        think(dice, 0.8)
        box.add(_message(dice, BEFORE + number))


def _filter(folder: Path, done: threading.Event) -> None:
    """A line in the index for each new message; the newest of each sender stands in a file."""
    role("filter")
    box = mailbox.Maildir(folder / "Mail")
    seen = set(box.keys())
    newest: dict[str, str] = {}
    while not done.wait(1.0):
        for key in sorted(set(box.keys()) - seen):
            seen.add(key)
            message = box.get(key)
            if message is None:
                continue
            newest[str(message["From"])] = str(message["Subject"])
            with (folder / "index.txt").open("a", encoding="utf-8") as index:
                index.write(f"{key} {message['From']} {message['Subject']}\n")
            (folder / "newest.txt").write_text(
                "".join(f"{sender}: {what}\n" for sender, what in sorted(newest.items())),
                encoding="utf-8",
            )


def _read(folder: Path) -> None:
    role("reader")
    dice = random.Random("mail")
    box = mailbox.Maildir(folder / "Mail")
    for number in range(READ):
        think(dice, 0.8)
        (folder / "index.txt").read_text(encoding="utf-8")
        if (folder / "newest.txt").exists():
            (folder / "newest.txt").read_bytes()
        for key in sorted(path.name for path in (folder / "Mail" / "new").iterdir())[:1]:
            message = box.get_message(key)
            message.set_subdir("cur")
            message.set_flags("S")
            box[key] = message
        if number % 12 == 11:
            with procedure("search"):
                _search(box, dice.choice(WORDS))
        if number % 20 == 19:
            with procedure("archive"):
                _archive(folder, box)


def _search(box: mailbox.Maildir, word: str) -> int:
    return sum(word in box.get_string(key) for key in sorted(box.keys()))


def _archive(folder: Path, box: mailbox.Maildir) -> None:
    """The ten oldest that were read."""
    archive = mailbox.mbox(folder / "archive.mbox")
    names = sorted(path.name for path in (folder / "Mail" / "cur").glob("*:2,*S*"))
    for key in [name.partition(":")[0] for name in names[:10]]:
        archive.add(mailbox.mboxMessage(box.get_message(key)))
        box.remove(key)
    archive.close()


if __name__ == "__main__":
    main(prepare, use)
