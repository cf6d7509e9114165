# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A libvirt of a test's own: Debian's daemons in a mount namespace, with files of their own.

Its folder stands in for /etc/libvirt, /run/libvirt and so on, for it alone; so no other libvirt of
this host is touched, and its sockets can be reached from outside. It has a /dev without kvm: where
that is there but useless, libvirt would wait for it when it asks QEMU what it can do.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypervisor.libvirt import LibvirtDriver
from hypervisor.libvirt.daemon import Daemon
from hypervisor.libvirt.tools import installed
from tests.leftovers import SHORT_PREFIX
from tests.needs import lacking
from tests.waiting import eventually

LIBVIRT = ("root", "libvirtd", "virtlogd", "virsh", "nsenter", "libvirt")
"""What a test with this daemon needs: `requires(*LIBVIRT)`."""

PATIENCE = 300.0

_PLACES = {
    "etc": "/etc/libvirt",
    "run": "/run/libvirt",
    "lib": "/var/lib/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "fuse")
_CONFIGURATION = {
    "libvirtd.conf": 'auth_unix_rw = "none"\nunix_sock_group = "root"\n',
    "qemu.conf": 'user = "root"\ngroup = "root"\nstdio_handler = "logd"\n',
    "virtlogd.conf": "",
}
_ENTER = """
set -e
cd {folder}
mkdir dev; mount -t tmpfs -o mode=755 dev dev
for name in {devices}; do [ ! -e /dev/$name ] || cp -a /dev/$name dev/; done
mkdir dev/pts dev/shm
mount --rbind /dev/pts dev/pts; mount --rbind /dev/shm dev/shm
ln -s /proc/self/fd dev/fd; umount -l /dev; mount --move dev /dev
{binds}
# Who Debian's libvirt runs QEMU as, unless it is told otherwise.
cp /etc/passwd /etc/group .
id libvirt-qemu || echo libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin >> passwd
getent group libvirt-qemu || echo libvirt-qemu:x:64055: >> group
mount --bind passwd /etc/passwd; mount --bind group /etc/group
{last}
"""
_LOG_DAEMON = "virtlogd --pid-file {folder}/virtlogd.pid"
_TOGETHER = f"exec {_LOG_DAEMON}"
_APART = f"""
mount -t proc proc /proc; umount -R -l /sys; mount -t sysfs sysfs /sys; ip link set lo up
mkdir /dev/net; mknod /dev/net/tun c 10 200
{_LOG_DAEMON} &
while :; do wait; sleep 1; done
"""
"""The first process of a room of its own, by which the room's orphans come to their end."""


class Libvirtd:
    """folder: an empty one with a short path; users of domains must get into it.

    apart: it has a network and processes of its own, where `within` leads: its bridges, dnsmasq and
    rules of a firewall are nowhere else, and all of it ends with `stop`.
    """

    def __init__(self, folder: Path, *, apart: bool = False) -> None:
        self._apart = apart
        self._folder = folder
        folder.chmod(0o711)
        for name in _PLACES:
            (folder / name).mkdir()
        for name, text in _CONFIGURATION.items():
            (folder / "etc" / name).write_text(text)
        # Mounts of RAM below `runs` must appear in the daemon's namespace, which begins as a copy.
        self.runs.mkdir()
        for options in (["--bind", str(self.runs)], ["--make-shared"]):
            subprocess.run(["mount", *options, str(self.runs)], check=True)
        binds = "\n".join(
            f"mkdir -p {to}; mount --bind {name} {to}" for name, to in _PLACES.items()
        )
        last = (_APART if apart else _TOGETHER).format(folder=folder)
        script = _ENTER.format(folder=folder, devices=" ".join(_DEVICES), binds=binds, last=last)
        self._log = (folder / "libvirt.out").open("wb")
        self._pid_file = str(folder / "libvirtd.pid")
        self._daemon: subprocess.Popen[bytes] | None = None
        unshare = ["unshare", "--mount", "--propagation", "slave"]
        if apart:
            unshare += ["--net", "--pid", "--fork", "--kill-child"]
        self._holder = self._popen(*unshare, "bash", "-c", script)

    @property
    def within(self) -> tuple[str, ...]:
        """Arguments before those of a program that is to take it for the host's own libvirt."""
        room = f"/proc/{self._holder.pid}/ns"
        own = (f"--net={room}/net", f"--pid={room}/pid_for_children") if self._apart else ()
        return ("nsenter", f"--mount={room}/mnt", *own)

    @property
    def runs(self) -> Path:
        """Run folders of machines whose RAM is mounted are below it."""
        return self._folder / "r"

    @property
    def uri(self) -> str:
        return f"qemu+unix:///system?socket={self._folder}/run/libvirt-sock"

    @property
    def daemon(self) -> Daemon:
        return Daemon(self.uri)

    def emulator(self) -> Path:
        """The program that libvirt runs in QEMU's place."""
        return installed(self.tools)

    @property
    def tools(self) -> Path:
        return self._folder / "tools"

    def driver(self, run: Path) -> LibvirtDriver:
        """Its machines' run folders are `run` or below it."""
        return LibvirtDriver(run, self.daemon, self.tools)

    def virsh(self, *arguments: str) -> str:
        command = ["virsh", "-q", "-c", self.uri, *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
        return done.stdout

    def start(self) -> None:
        """Start the daemon, and wait until it answers."""
        assert eventually((self._folder / "run" / "virtlogd-sock").exists, PATIENCE), self.said()
        command = (*self.within, "/usr/sbin/libvirtd", "--pid-file", self._pid_file)
        self._daemon = self._popen(*command)
        assert eventually(self._answers, PATIENCE), self.said()

    def kill(self) -> None:
        """End the daemon as a crash does. Its domains go on."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()

    def stop(self) -> None:
        for process in filter(None, (self._daemon, self._holder)):
            process.send_signal(signal.SIGKILL if self._apart else signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        subprocess.run(["umount", "--lazy", str(self.runs)], check=True)
        self._log.close()

    def said(self) -> str:
        return (self._folder / "libvirt.out").read_text()

    def _answers(self) -> bool:
        command = ["virsh", "-q", "-c", self.uri, "version"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def _popen(self, *command: str) -> subprocess.Popen[bytes]:
        path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PATH": path},
        )


@pytest.fixture(scope="session")
def libvirtd() -> Iterator[Libvirtd]:
    """A libvirt of the tests' own, one in a run."""
    if reasons := [reason for need in LIBVIRT if (reason := lacking(need))]:
        pytest.skip("; ".join(reasons))
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    libvirt = Libvirtd(folder)
    try:
        libvirt.start()
        yield libvirt
    finally:
        libvirt.stop()
    shutil.rmtree(folder)
