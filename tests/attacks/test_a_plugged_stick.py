# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A stick in clear takes over the engine that reads it, and finds nothing to do there: at a
surrogate, at home, at the client."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chunkstore import MediaDamaged
from chunkstore._native import _core
from homeserver.media.care import media_contents, recover_media, verify_media
from media import ConfinedMedium, Media, MediaInClear, ReaderGone, apart, require_sealed
from media.apart import CHANNELS
from satchel.errors import IntegrityError, SatchelError, UnavailableError
from surrogate.fetching.sources import MediaSource
from tests.chunkstore.content import flip, packs
from tests.client.world import World, post
from tests.homeserver.conftest import Bench
from tests.homeserver.test_carry import log_on, run
from tests.needs import requires
from tests.scripted import operation
from wire import Priority

pytestmark = requires("landlock")

TAKEN_OVER = """
import ctypes, json, os, signal, socket
import chunkstore._native._core as engine
stick, secret, listener, parent = json.loads(os.environ["WORDS"])
libc = ctypes.CDLL(None, use_errno=True)

def system(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "syscall")

def dial(kind, place):
    with socket.socket(kind) as caller:
        caller.connect(place)

TRIES = {
    "read": lambda: open(secret).read(),
    "list": lambda: os.listdir(os.path.dirname(secret)),
    "write": lambda: open(secret, "w"),
    "link": lambda: os.link(secret, stick + "/secret"),
    "follow": lambda: open(stick + "/link").read(),
    "memory": lambda: open(f"/proc/{parent}/mem", "rb").read(1),
    "environment": lambda: open(f"/proc/{parent}/environ", "rb").read(1),
    "execute": lambda: os.execv("/bin/true", ["true"]),
    "fork": lambda: os.fork(),
    "signal": lambda: os.kill(int(parent), signal.SIGTERM),
    "ptrace": lambda: system(101, 16, int(parent), 0, 0),
    "socket": lambda: dial(socket.AF_UNIX, listener),
    "network": lambda: dial(socket.AF_INET, ("127.0.0.1", 22)),
    "datagram": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", listener),
    "mount": lambda: system(165, 0, 0, 0, 0, 0),
    "namespaces": lambda: system(272, 0x10000000),
    "make": lambda: open(stick + "/made", "w"),
    "mode": lambda: os.chmod(stick, 0o777),
    "mode at": lambda: system(268, -100, stick.encode(), 0o777),
    "mode of a descriptor": lambda: system(91, 0, 0o777),
    "owner": lambda: system(260, -100, stick.encode(), os.getuid(), os.getgid(), 0),
    "attribute": lambda: os.setxattr(stick, "user.x", b"x"),
    "times": lambda: os.utime(stick),
    "limits of another": lambda: system(302, int(parent), 7, 0, ctypes.create_string_buffer(16)),
    "thread's signal": lambda: system(234, os.getpid(), int(parent), 0),
    "own signal": lambda: system(234, os.getpid(), os.getpid(), 0),
    "a socket": lambda: socket.socket(socket.AF_UNIX),
    "a program in memory": lambda: os.memfd_create("x"),
    "priority": lambda: os.nice(1),
    "processors": lambda: os.sched_setaffinity(0, {0}),
    "as another": lambda: os.setuid(12345),
    "a timer of another clock": lambda: system(222, 0, 0, 0),
    "inotify": lambda: system(294, 0),
    "a lease": lambda: system(157, 1, 9, 0, 0, 0),
}

class Media:
    @staticmethod
    def open(root, key):
        return Media()

    def read_file(self, path):
        done = []
        for name, attempt in TRIES.items():
            try:
                attempt()
                done.append(name)
            except OSError:
                pass
        own = open(stick + "/own").read()
        return json.dumps([len(TRIES), done, dict(os.environ), own]).encode()

engine.Media.open = staticmethod(Media.open)
"""


def take_over(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a reader run `code` before it confines itself."""
    (folder / "taken_over.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(apart, "_START", apart._START.replace("main(", "import taken_over\nmain("))


@pytest.mark.parametrize("reader, may", [(ConfinedMedium.reading, []), (ConfinedMedium, ["make"])])
def test_its_reader_reads_the_stick_and_does_nothing_else(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Any, may: list[str]
) -> None:
    """The reader is the real one, started in the folder with the secret. A module that it imports
    does what a stick would have the engine do."""
    stick, evil, secret = short_path / "stick", short_path / "evil", short_path / "secrets" / "key"
    for folder in (stick, evil, secret.parent):
        folder.mkdir()
    secret.write_text("the host's key")
    (stick / "own").write_text("mine")
    (stick / "link").symlink_to(secret)
    take_over(evil, TAKEN_OVER, monkeypatch)
    words = [str(one) for one in (stick, secret, short_path / "daemon", os.getpid())]
    monkeypatch.setenv("WORDS", json.dumps(words))
    monkeypatch.chdir(secret.parent)
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(words[2])
        daemon.listen()
        opened = reader.open(stick, b"") if may else reader(stick)
        try:
            tried, done, environment, read = json.loads(opened.read_file("media.json"))
            lines = Path(f"/proc/{opened._process.pid}/status").read_text().splitlines()
        finally:
            opened.close()
    assert tried == 34
    rights = [int(line.split()[1], 16) for line in lines if line.startswith("Cap")]
    assert len(rights) == 5
    assert not any(mask & ~2 for mask in rights), "it keeps DAC_OVERRIDE at most"
    assert (done, environment, read) == (may, {}, "mine")
    assert secret.read_text() == "the host's key"
    assert (stick / "made").exists() == bool(may)


CLAIMS = """
import media.apart as apart

def main(way, root, *channels):
    end = apart._Channel(apart.socket.socket(fileno=int(channels[-1])))
    number = end.hear()[0]
    end.say(number, "failed", "ConfinementImpossible", "no Landlock", "", "", bytes(52))
"""


@pytest.mark.parametrize("how", ["open", "redescribe", "reading"])
def test_a_reader_that_says_it_is_not_confined_is_not_believed(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: None, how: str
) -> None:
    """The stick may speak through that process. This one does not parse its bytes."""
    take_over(short_path, CLAIMS, monkeypatch)
    start = apart._START.replace("main(*sys", "taken_over.main(*sys")
    monkeypatch.setattr(apart, "_START", start)
    words: dict[str, tuple[object, ...]] = {"open": (b"",), "redescribe": ("uuid", b"")}
    with pytest.raises(SatchelError):
        getattr(ConfinedMedium, how)(short_path, *words.get(how, ()))


LIES = """
import chunkstore._native._core as engine

class Media:
    @staticmethod
    def open(root, key):
        return Media()

    def records(self, refs): return [b"x" * 7, refs]
    def has(self, refs): return [True]
    def chunks(self): return -1
    def pieces(self, roots): return "many", 2
    def missing(self, roots): return b"half of a reference"
    def read_file(self, path): return {"bytes": 1 << 40}
    def free_bytes(self): return 1 << 70
    def generations(self): return [[1, 2, "paths", 3, 4, ""]]
    def verify(self, progress):
        progress("a", "b")

engine.Media.open = staticmethod(Media.open)
"""


@pytest.mark.parametrize(
    "ask",
    [
        lambda media: media.records(bytes(7)),
        lambda media: media.has(bytes(52 * 3)),
        lambda media: media.chunks(),
        lambda media: media.pieces([]),
        lambda media: media.missing([]),
        lambda media: media.read_file("media.json"),
        lambda media: media.free_bytes(),
        lambda media: media.generations(),
        lambda media: media.verify(lambda done, total: None),
    ],
)
def test_what_it_then_says_is_damage_and_nothing_worse(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[ConfinedMedium], object]
) -> None:
    take_over(short_path, LIES, monkeypatch)
    media = ConfinedMedium.reading(short_path)
    try:
        with pytest.raises(MediaDamaged):
            ask(media)
    finally:
        media.close()


FAILS = """
import chunkstore._native._core as engine

class Media:
    @staticmethod
    def open(root, key):
        return Media()

    def chunks(self):
        raise ERROR

engine.Media.open = staticmethod(Media.open)
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("readers", [1, CHANNELS])
@pytest.mark.parametrize(
    "error, told",
    [("MemoryError", MediaDamaged), ("SystemExit", ReaderGone), ("OSError(5, 'bad')", ReaderGone)],
)
def test_whoever_waits_for_a_reader_that_fails_is_told(
    short_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, told: type, readers: int
) -> None:
    """Whatever the engine makes of the bytes. As many ask at once as the reader has threads."""
    take_over(short_path, FAILS.replace("ERROR", error), monkeypatch)
    media = ConfinedMedium.reading(short_path)
    try:
        with ThreadPoolExecutor(readers) as pool:
            asked = [pool.submit(media.chunks) for _ in range(readers)]
        assert [type(one.exception()) for one in asked] == [told] * readers
    finally:
        media.close()


def test_a_reader_that_is_killed_is_a_source_that_fails(short_path: Path) -> None:
    Media.init(short_path).close()
    source = MediaSource(short_path)
    os.kill(source._media._process.pid, signal.SIGKILL)
    with pytest.raises(UnavailableError):
        source.fetch(bytes(52), Priority.DEMAND, 10.0)
    source.close()


def test_a_reader_that_hangs_is_silent_and_its_late_answer_is_nobodys(short_path: Path) -> None:
    Media.init(short_path).close()
    media = ConfinedMedium.reading(short_path)
    os.kill(media._process.pid, signal.SIGSTOP)
    os.waitpid(media._process.pid, os.WUNTRACED)
    with pytest.raises(ReaderGone):
        media.records(bytes(52), 0.2)
    os.kill(media._process.pid, signal.SIGCONT)
    assert media.chunks() == 0
    assert media.has(bytes(52)) == [True]
    media.close()


def test_a_program_that_finds_its_modules_by_itself_has_a_reader_too(short_path: Path) -> None:
    """As those of the Debian packages do. It runs in the root folder, as daemons do."""
    Media.init(short_path).close()
    code = f"""
import sys
sys.path[:0] = {[one for one in sys.path if one]}
from pathlib import Path
from media import ConfinedMedium
media = ConfinedMedium.reading(Path({str(short_path)!r}))
print(media.chunks())
media.close()
"""
    argv = [sys.executable, "-I", "-c", code]
    done = subprocess.run(argv, cwd="/", env={}, capture_output=True, text=True, check=False)
    assert done.stdout == "0\n", done.stderr


def test_a_stick_that_is_none_is_told(short_path: Path) -> None:
    (short_path / "satchel").mkdir(parents=True)
    (short_path / "satchel" / "media.json").write_bytes(b"\xff" * 100)
    with pytest.raises(IntegrityError):
        MediaSource(short_path)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process does not parse what is in clear."""
    opens = _core.Media.open

    def refusing(root: Path, key: bytes) -> _core.Media:
        assert key, f"{root} was parsed here"
        return opens(root, key)

    def describing(root: Path, uuid: str, key: bytes) -> None:
        raise AssertionError(f"{root} was parsed here")

    monkeypatch.setattr(_core.Media, "open", staticmethod(refusing))
    monkeypatch.setattr(_core.Media, "redescribe", staticmethod(describing))


@requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")
def test_home_parses_none_itself(bench: Bench, media: Path, elsewhere: None) -> None:
    """Whatever a person has home do with it. Each of these is done in the end."""
    service, keys = bench.running(), bench.settings.media_keys
    log_on(service, media, [operation(n) for n in range(1, 4)])
    assert bench.home.carry("notes", media).operation == 3
    run(service, 4, 5)
    assert bench.home.carry("notes", media).generation == 2
    assert bench.home.sync(["notes"], media).generation == 2
    assert [row["operation"] for row in media_contents(media, keys)] == [5, 3]
    assert verify_media(media, keys=keys)["ok"]
    assert bench.home.defragment(media).after == {"notes": 1}
    (media / "satchel" / "media.json").unlink()
    for commit in (media / "satchel" / "commits").iterdir():
        commit.unlink()
    mended = recover_media(media, keys=keys)
    assert (mended.bad_places, list(mended.checkpoints)) == (0, ["notes"])
    damaged = max(packs(media / "satchel" / "packs"), key=lambda path: path.stat().st_size)
    flip(damaged, damaged.stat().st_size // 2)
    assert not verify_media(media, keys=keys)["ok"]


def test_one_that_was_plugged_in_is_not_even_read(
    bench: Bench, media: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Home and the client use none in clear unasked, and say so before they look."""
    monkeypatch.setattr(ConfinedMedium, "__init__", None)
    with pytest.raises(MediaInClear):
        require_sealed(media, bench.settings.media_keys)


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")
def test_the_client_parses_none_itself(carried: World, elsewhere: None) -> None:
    runner = carried.runner()
    assert post(carried.proxy(runner)).status_code == 200
    assert runner.status()["media"] is not None
