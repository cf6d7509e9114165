# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a click group as a program: the one place where an error becomes an exit code."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import logging
import queue
import shutil
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

from console.commands import CommandGroup
from console.manager import tell_manager
from console.startup import INTERRUPTED, SIGNALS, end_at_signals, on_signals
from satchel.errors import (
    NO_ROOM,
    AccessError,
    CapacityError,
    NotFoundError,
    SatchelError,
    UnavailableError,
    UsageError,
)
from satchel.paths import MACHINE_CONFIG, config_dir, config_file

logger = logging.getLogger(__name__)

OF_THE_SYSTEM: tuple[tuple[type[SatchelError], tuple[int, ...]], ...] = (
    (NotFoundError, (errno.ENOENT, errno.ENOTDIR, errno.ENODEV)),
    (AccessError, (errno.EACCES, errno.EPERM, errno.EROFS)),
    (CapacityError, (*NO_ROOM, errno.EMFILE, errno.ENFILE, errno.ENOMEM)),
    (UnavailableError, (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENXIO)),
)
"""What an error of the system is, by its number; any other one is a defect."""

json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")

web_option = click.option(
    "--web",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve a web page on a local PORT, 0 for a free one, and print its login link.",
)


def run_program(group: click.Command, name: str) -> NoReturn:
    """Run a command or a group of them and exit: 0, an error's own code, or 130 after Ctrl-C.
    SIGTERM and SIGHUP end a program that has said `ready` with 0: that is how it is to be ended.

    An error is one line on standard error. With --json among the arguments it is a JSON object
    with code, what, why and fix. Both unwind like Ctrl-C does, so that everything is put away;
    while it is, further ones do nothing. A pipe that nobody reads ends it with 1, in silence: that
    is click's doing. What the person's character set lacks is printed by its number: the name of a
    file can be any bytes.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        on_signals(_interrupt)
        status = _status_of(group, name)
        end_at_signals(name)
    except KeyboardInterrupt:
        status = INTERRUPTED if not _ready or _signals[:1] == [signal.SIGINT] else 0
        print(f"{name}: {'interrupted' if status else 'ended'}", file=sys.stderr)
    sys.exit(status)


def _status_of(group: click.Command, name: str) -> int:
    """Run it; its exit code. An error has been told. Raises KeyboardInterrupt after a signal."""
    try:
        status = group.main(prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return UsageError.exit_code
    except click.UsageError as error:
        _report(name, _of_usage(error, name))
        return UsageError.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except SatchelError as error:
        _report(name, error)
        return error.exit_code
    except OSError as error:
        known = _of_the_system(error, group)
        _report(name, known)
        return known.exit_code
    return status if isinstance(status, int) else 0


def _of_usage(error: click.UsageError, name: str) -> UsageError:
    """In one line, of which click's guess at what was meant is a part."""
    what = error.format_message().removesuffix(".")
    what, _, guess = what.replace(" (Did you mean", ". Did you mean").partition(". Did you mean ")
    program = error.ctx.command_path if error.ctx else name
    meant = f"did you mean {guess.rstrip('?)')}, or " if guess else ""
    return UsageError(what[:1].lower() + what[1:], fix=f"{meant}see `{program} --help`")


_signals: list[int] = []
"""Those that have come. A list, because nothing with a lock can be used in a signal's handler."""

_ready: list[bool] = []
"""Filled once the program has said that it is ready."""


def _interrupt(signum: int, frame: object) -> NoReturn:
    _signals.append(signum)
    deaf_to_signals()
    raise KeyboardInterrupt


def _of_the_system(error: OSError, group: click.Command) -> SatchelError:
    """What no part has made an error of its own of; its traceback is in the developer's log."""
    logger.debug("unexpected", exc_info=error)
    what = f"cannot use {error.filename}" if error.filename else "the system refused something"
    kind = next((kind for kind, numbers in OF_THE_SYSTEM if error.errno in numbers), SatchelError)
    fix = ""
    if kind is AccessError and isinstance(group, CommandGroup) and "--config" not in sys.argv:
        used = config_file(group.file)
        if used.is_relative_to(MACHINE_CONFIG):
            own = config_dir() / used.name
            fix = f"{used} says where that is; settings of your own go into {own}"
    return kind(what, why=error.strerror or str(error), fix=fix)


def _report(name: str, error: SatchelError) -> None:
    if "--json" in sys.argv:
        fields = {"code": error.wire_code, "what": error.what, "why": error.why, "fix": error.fix}
        print(json.dumps({"error": fields}), file=sys.stderr)
    else:
        print(f"{name}: {error}", file=sys.stderr)


def program_path() -> Path:
    """Where this program lies, for files that others run it by."""
    found = shutil.which(sys.argv[0]) or sys.argv[0]
    return Path(found).absolute()


def serve_until_signal(announcement: str, leave: queue.SimpleQueue[None] | None = None) -> None:
    """Say that a daemon is ready, then wait, at most until something is put into `leave`, which a
    signal's handler may do. The signals end the wait, and the program."""
    ready()
    print(announcement, file=sys.stderr, flush=True)
    wait_for(leave or queue.SimpleQueue())


def ready() -> None:
    """A daemon or a session is up, and runs until it is told to end: the service manager hears of
    it, and from here on SIGTERM is no failure."""
    _ready.append(True)
    tell_manager("READY=1")


def wait_for(word: queue.SimpleQueue[None]) -> None:
    """Wait until another thread or a signal's handler puts something there. Raises
    KeyboardInterrupt after a signal.

    Looks once a second, because the exception of a signal can be lost: it may come just before a
    wait begins, or in a destructor, which drops it.
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return word.get(timeout=1)
        if _signals:
            raise KeyboardInterrupt


def deaf_to_signals() -> None:
    """From here on the signals do nothing: what is being put away is put away. Main thread
    only."""
    if _ready:
        tell_manager("STOPPING=1")
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
