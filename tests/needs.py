# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a test needs of the machine it runs on, said once, beside the test.

    @requires("qemu-system-x86_64", "netns")
    def test_resume_at_the_second_hotspot(): ...

    pytestmark = requires("root")        # a whole file

A need is the name of a program, or one of: root, netns, fuse, mappings, lmdb, caldav, libvirt,
loop, tun, userns, websocket, kvm, moto. What is lacking is the reason of the skip. In CI and with
--nightly a skip that tests/expected-skips.txt does not name fails.
"""

import ctypes
import functools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


def requires(*needs: str) -> pytest.MarkDecorator:
    """A mark that skips where one of `needs` is lacking."""
    reasons = [reason for need in needs if (reason := lacking(need))]
    return pytest.mark.skipif(bool(reasons), reason="; ".join(reasons))


@functools.cache
def lacking(need: str) -> str:
    """Why `need` is not met here; empty if it is."""
    if need in _CAPABILITIES:
        met, reason = _CAPABILITIES[need]
        return "" if met() else f"needs {need}: {reason}"
    search = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return "" if shutil.which(need, path=search) else f"needs the program {need}"


def _is_root() -> bool:
    return os.geteuid() == 0


def _opens(device: str) -> bool:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError:
        return False
    return True


def _succeeds(*argv: str) -> bool:
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0


def _unshares(*options: str) -> bool:
    return _succeeds("unshare", *options, "true")


def _has_moto() -> bool:
    return bool(shutil.which("moto_server", path=f".venv/moto/bin:{os.environ.get('PATH', '')}"))


def _has_loop() -> bool:
    return _opens("/dev/loop-control") and _succeeds("losetup", "--find")


def _has_kvm() -> bool:
    flags = Path("/proc/cpuinfo").read_text().split()
    return ("vmx" in flags or "svm" in flags) and _opens("/dev/kvm")


def _has_landlock() -> bool:
    return bool(ctypes.CDLL(None).syscall(444, None, 0, 1) > 0)


def _maps_mounts() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor)) >= (6, 6)


_CAPABILITIES: dict[str, tuple[Callable[[], bool], str]] = {
    "root": (_is_root, "the tests run as a user"),
    "netns": (lambda: _is_root() and _unshares("--net"), "network namespaces cannot be made"),
    "fuse": (lambda: _opens("/dev/fuse"), "/dev/fuse cannot be opened"),
    "landlock": (_has_landlock, "the kernel has no Landlock"),
    "mappings": (_maps_mounts, "the kernel is older than 6.6: no shared mappings on mounts"),
    "caldav": (
        lambda: _succeeds("/usr/bin/python3", "-c", "import caldav"),
        "Debian's package python3-caldav is missing",
    ),
    "lmdb": (
        lambda: _succeeds("/usr/bin/python3", "-c", "import lmdb"),
        "Debian's package python3-lmdb is missing",
    ),
    "libvirt": (
        lambda: _succeeds("/usr/bin/python3", "-c", "import libvirt"),
        "Debian's package python3-libvirt is missing",
    ),
    "websocket": (
        lambda: _succeeds("/usr/bin/python3", "-c", "import websocket"),
        "Debian's package python3-websocket is missing",
    ),
    "moto": (_has_moto, "scripts/bootstrap --nightly installs it"),
    "loop": (_has_loop, "there is no free loop device"),
    "tun": (lambda: _opens("/dev/net/tun"), "/dev/net/tun cannot be opened"),
    "userns": (
        lambda: _unshares("--user", "--map-root-user"),
        "user namespaces are not allowed",
    ),
    "kvm": (_has_kvm, "the CPU or the kernel offers no hardware virtualisation"),
}
