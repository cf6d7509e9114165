# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Ends a test that hangs where no signal reaches it.

A process that serves a FUSE mount and waits for an answer of it sleeps in the kernel until its own
thread answers (request_wait_answer in Linux, fs/fuse/dev.c: what the server has read is waited
out). Where that thread hangs, neither pytest-timeout's alarm nor kill -9 ends the process. So a
process of its own watches the run. It is told each test that begins and how long that one may
take; after that time and GRACE_SECONDS it aborts what is mounted under the run's folders: the
call fails, and pytest-timeout's alarm, long due, ends the test. After as long again it kills the
run.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.leftovers import MARK, mounts, run_folders

GRACE_SECONDS = 30.0
MNT_FORCE, MNT_DETACH = 1, 2

_libc = ctypes.CDLL(None)


@pytest.fixture(scope="session", autouse=True)
def _watchdog(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> int:
    """The watching process, which ends with this one: where it is told what begins."""
    told, tell = os.pipe()
    grace = float(os.environ.get("SATCHEL_WATCHDOG_GRACE", GRACE_SECONDS))
    argv = [sys.executable, "-m", "tests.watchdog", str(os.getpid()), str(grace)]
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # its words are the run's
        subprocess.Popen(
            [*argv, *run_folders(tmp_path_factory)],
            stdin=told,
            cwd=Path(__file__).parents[1],
            env={name: value for name, value in os.environ.items() if name != MARK},
        )
    os.close(told)
    return tell


@pytest.fixture(autouse=True)
def _watched(request: pytest.FixtureRequest, _watchdog: int) -> None:
    marker = request.node.get_closest_marker("timeout")
    limit = marker.args[0] if marker else request.config.getini("timeout")
    os.write(_watchdog, f"{limit}\n".encode())


def watch(told: int, run: int, grace: float, folders: tuple[str, ...]) -> None:
    """Until `told` ends. run: its process id; grace: seconds"""
    poll = select.poll()
    poll.register(told, select.POLLIN)
    seconds, aborted = None, False
    while True:
        if poll.poll(None if seconds is None else seconds * 1000):
            limits = os.read(told, 65536).split()
            if not limits:
                return
            seconds, aborted = float(limits[-1]) + grace, False
        elif aborted:
            print(f"watchdog: process {run} still hangs: killed", file=sys.stderr)
            os.kill(run, signal.SIGKILL)
            return
        else:
            paths = abort_mounts(folders)
            print(f"watchdog: a test of process {run} hangs; aborted: {paths}", file=sys.stderr)
            seconds, aborted = grace, True


def abort_mounts(folders: tuple[str, ...]) -> list[str]:
    """End the FUSE connections of what is mounted below these, and tell the mountpoints."""
    aborted = []
    for path, device, kind in mounts():
        if kind.startswith("fuse") and path.startswith(folders):
            if _libc.umount2(os.fsencode(path), MNT_FORCE | MNT_DETACH):  # not root
                number = device.split(":")[1]
                Path("/sys/fs/fuse/connections", number, "abort").write_text("1")
            aborted.append(path)
    return aborted


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch(0, int(sys.argv[1]), float(sys.argv[2]), tuple(sys.argv[3:]))
