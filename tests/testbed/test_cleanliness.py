# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing is left: after an exit, an interrupt, a kill, a failed start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from satchel.errors import UnsupportedError
from testbed import Testbed, bed, namespaces
from tests.needs import requires
from tests.waiting import eventually

pytestmark = [pytest.mark.netns, requires("netns", "tun")]

PROGRAM = """
import sys, time
from pathlib import Path
from testbed import Testbed
with Testbed() as bed:
    script = "setsid sh -c 'trap \\"\\" TERM; sleep 99' & sleep 99"
    bed.host("surrogate-a").popen(["sh", "-c", script], log=Path(sys.argv[1]))
    bed.host("home").popen(["sleep", "99"], log=Path(sys.argv[1]))
    print("ready", flush=True)
    time.sleep(99)
"""


def names_of(pid: int) -> list[str]:
    return [path.name for path in namespaces.FOLDER.glob(f"satchel-{pid}-*")]


def emulators_of(pid: int) -> list[int]:
    """Link emulators that this process started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid and words[0].endswith(b"satchel-link"):
            found.append(int(folder.name))
    return found


def start_program(tmp_path: Path) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path / "log")]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_nothing_is_left_after_an_exit(tmp_path: Path) -> None:
    with Testbed() as running:
        process = running.host("home").popen(["sleep", "99"], log=tmp_path / "log")
        names = [host.namespace for host in running.hosts.values()]
        assert sorted(names) == sorted(names_of(os.getpid()))
        assert emulators_of(os.getpid())
    assert process.returncode == -signal.SIGTERM
    assert not names_of(os.getpid())
    assert not emulators_of(os.getpid())
    running.close()


def test_two_testbeds_do_not_disturb_each_other() -> None:
    with Testbed() as one, Testbed() as other:
        assert one.host("home").namespace != other.host("home").namespace
        one.client.move("b")
        assert other.client.hotspot == "a"


def test_nothing_is_left_after_an_interrupt(tmp_path: Path) -> None:
    process = start_program(tmp_path)
    (emulator,) = emulators_of(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert not names_of(process.pid)
    assert not Path(f"/proc/{emulator}").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_demo_that_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    images = tmp_path / "images"
    settings = {"TMPDIR": str(tmp_path), "SATCHEL_TEST_CACHE": str(images)}
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed.story", "--out", str(tmp_path / "out")],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def mounts() -> list[str]:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [line for line in lines if str(tmp_path) in line]

    assert eventually(images.exists)  # it builds one: the testbed is there, and the stick
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert not names_of(process.pid)
    assert not mounts()
    assert not list(tmp_path.glob("satchel-*"))


def test_what_a_killed_testbed_left_is_cleaned(tmp_path: Path) -> None:
    process = start_program(tmp_path)
    (emulator,) = emulators_of(process.pid)
    names = names_of(process.pid)
    assert not set(names) & set(namespaces.leftovers())
    process.kill()
    process.communicate(timeout=60)
    assert eventually(lambda: not Path(f"/proc/{emulator}").exists())
    assert set(names) <= set(namespaces.leftovers())
    assert namespaces.processes(names)
    assert set(names) <= set(namespaces.clean())
    assert not names_of(process.pid)
    assert not namespaces.processes(names)


def test_nothing_is_left_after_a_failed_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bed.ROUTER_SETTINGS, "ipv4/ip_forward", "nonsense")
    with pytest.raises(OSError, match="Invalid argument"):
        Testbed().start()
    assert not names_of(os.getpid())
    assert not emulators_of(os.getpid())


def test_a_user_is_told_what_is_missing_and_what_to_do() -> None:
    script = "from testbed import Testbed; Testbed().start()"
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--clear-groups"]
    done = subprocess.run(
        [*drop, sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert UnsupportedError.__name__ in done.stderr
    assert "lacks CAP_NET_ADMIN and CAP_SYS_ADMIN; run it as root" in done.stderr
