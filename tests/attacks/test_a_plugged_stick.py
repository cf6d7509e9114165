# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A stick that takes over the process which reads it at a surrogate finds nothing to do there."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chunkstore import Media
from satchel.errors import IntegrityError
from surrogate.media_reader import MediaReader
from tests.needs import requires

pytestmark = requires("landlock")

HOSTILE = """
import ctypes, json, os, pathlib, signal, socket, sys
from cell import confine
stick, own, secret, listener, parent = sys.argv[1:]
confine([pathlib.Path(stick)], [pathlib.Path(own)])
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
    "make": lambda: open(stick + "/made", "w"),
    "link": lambda: os.link(secret, own + "/secret"),
    "follow": lambda: open(stick + "/link").read(),
    "memory": lambda: open(f"/proc/{parent}/mem", "rb").read(1),
    "environment": lambda: open(f"/proc/{parent}/environ", "rb").read(1),
    "execute": lambda: os.execv("/bin/true", ["true"]),
    "signal": lambda: os.kill(int(parent), signal.SIGTERM),
    "ptrace": lambda: system(101, 16, int(parent), 0, 0),
    "socket": lambda: dial(socket.AF_UNIX, listener),
    "network": lambda: dial(socket.AF_INET, ("127.0.0.1", 22)),
    "datagram": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", listener),
    "mount": lambda: system(165, 0, 0, 0, 0, 0),
    "namespaces": lambda: system(272, 0x10000000),
}
done = []
for name, attempt in TRIES.items():
    try:
        attempt()
        done.append(name)
    except OSError:
        pass
print(json.dumps([sorted(TRIES), done, dict(os.environ), open(stick + "/own").read()]))
"""


def test_its_reader_reads_the_stick_and_does_nothing_else(short_path: Path) -> None:
    stick, own, secret = short_path / "stick", short_path / "own", short_path / "secrets" / "key"
    for folder in (stick, own, secret.parent):
        folder.mkdir()
    secret.write_text("the host's key")
    (stick / "own").write_text("mine")
    (stick / "link").symlink_to(secret)
    words = [str(one) for one in (stick, own, secret, short_path / "daemon", os.getpid())]
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(words[3])
        daemon.listen()
        argv = [sys.executable, "-c", HOSTILE, *words]
        environment = {**os.environ, "SECRET": "1"}
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=120, env=environment
        )
    assert done.returncode == 0, done.stderr
    tried, succeeded, environment, read = json.loads(done.stdout)
    assert len(tried) == 16
    assert (succeeded, environment, read) == ([], {}, "mine")
    assert secret.read_text() == "the host's key"
    assert not (stick / "made").exists()


def test_a_reader_that_is_killed_is_a_source_that_fails(short_path: Path) -> None:
    stick = short_path / "stick"
    stick.mkdir()
    with Media.init(stick):
        pass
    reader = MediaReader(stick, short_path / "r")
    os.kill(reader._process.pid, signal.SIGKILL)
    reader._process.wait()
    reader.close()
    assert list((short_path / "r").iterdir()) == []


def test_a_stick_that_is_none_is_told_and_nothing_is_left(short_path: Path) -> None:
    (short_path / "stick" / "satchel").mkdir(parents=True)
    (short_path / "stick" / "satchel" / "media.json").write_bytes(b"\xff" * 100)
    with pytest.raises(IntegrityError):
        MediaReader(short_path / "stick", short_path / "r")
    assert list((short_path / "r").iterdir()) == []
