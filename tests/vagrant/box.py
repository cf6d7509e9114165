# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A box of Debian 12 for the Vagrantfile: what scripts/bootstrap looks for is there already.

It is a disk as clouds have them (tests/images/cloud_disk.py), with what Vagrant wants of a box (a
user `vagrant` with its well-known key, sudo, rsync), Debian's packages of scripts/packages.txt, and
what bootstrap made of this tree at /vagrant: there is no network in the test's machines, and
compilers are slow where they are emulated. The box is made anew when a package list changes or what
bootstrap makes its environment and its native parts from. Root is needed, and the network.
"""

import fcntl
import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from images.debian import bootstrap
from images.sources import host_sources
from tests.images.cloud_disk import bootable, run

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "vagrant"
DISK_MIB = 6144

_PACKAGES = (
    "ca-certificates",
    "dbus",
    "ifupdown",
    "isc-dhcp-client",
    "kmod",
    "linux-image-cloud-amd64",
    "openssh-server",
    "procps",
    "rsync",
    "sudo",
    "systemd-sysv",
    "udev",
)
_UNREAD = ("doc", "locale", "man")
# dpkg waits for the disk at each file otherwise, which takes longer than all else.
_DPKG = ("force-unsafe-io", *(f"path-exclude=/usr/share/{name}/*" for name in _UNREAD))
_KEYS = "/usr/share/rubygems-integration/all/gems/vagrant-*/keys/vagrant.pub"
_HOST_FILES = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/resolv.conf")
_GONE = (*_HOST_FILES, "/etc/machine-id", "/vagrant/build")
_FILES = {
    "etc/hostname": "bookworm\n",
    "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 bookworm\n",
    "etc/machine-id": "",
    "etc/network/interfaces": "auto lo eth0\niface lo inet loopback\niface eth0 inet dhcp\n",
    "etc/sudoers.d/vagrant": "vagrant ALL=(ALL) NOPASSWD: ALL\n",
    # Each machine has host keys of its own.
    "etc/systemd/system/ssh.service.d/keys.conf": "[Service]\nExecStartPre=\n"
    "ExecStartPre=/usr/bin/ssh-keygen -A\nExecStartPre=/usr/sbin/sshd -t\n",
}
_ENTER = """
set -eu
cd "$0"
for folder in dev sys; do mount --rbind --make-rslave /$folder $folder; done
mount -t proc proc proc
mount -t tmpfs tmpfs tmp
exec chroot . /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
"""


def box(source: Path) -> Path:
    """The box for the tree `source`, which holds what git holds; made now unless it is there."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made, stamp = CACHE / "bookworm.box", CACHE / "stamp"
        wanted = _stamp(source)
        if not made.exists() or not stamp.exists() or stamp.read_text() != wanted:
            with tempfile.TemporaryDirectory(dir=CACHE) as name:
                _make(source, Path(name)).rename(made)
            stamp.write_text(wanted)
    return made


def _stamp(source: Path) -> str:
    """Of what the box is made from, a little more than scripts/bootstrap makes its own of."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    names = {"setup.py", "pyproject.toml", "requirements.lock", "packages.txt", "CMakeLists.txt"}
    for path in sorted(p for p in source.rglob("*") if p.is_file()):
        if path.name in names or path.suffix in (".cc", ".c", ".h", ".cmake"):
            digest.update(f"{path.relative_to(source)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _make(source: Path, scratch: Path) -> Path:
    root, disk = scratch / "root", scratch / "disk"
    root.mkdir()
    run("tar", "-C", str(root), "--numeric-owner", "--xattrs", "-xf", str(_packages(source)))
    _make_ready(root, source)
    bootable(root, disk, DISK_MIB, "net.ifnames=0")
    shutil.rmtree(root)
    # Vagrant sends it to libvirt, and each byte of that goes through Ruby.
    run("qemu-img", "convert", "-c", "-O", "qcow2", "-o", "compression_type=zstd",
        str(disk), str(scratch / "box.img"))  # fmt: skip
    disk.unlink()
    about = {"provider": "libvirt", "format": "qcow2", "virtual_size": -(-DISK_MIB // 1024)}
    (scratch / "metadata.json").write_text(json.dumps(about))
    made = scratch / "made.box"
    run("tar", "-C", str(scratch), "-cf", str(made), "metadata.json", "box.img")
    return made


def _packages(source: Path) -> Path:
    """A tar of Debian with the packages; it stays for the next box."""
    lines = (source / "scripts/packages.txt").read_text().splitlines()
    listed = [name for line in lines if (name := line.split("#")[0].strip())]
    names = sorted({*listed, *_PACKAGES})
    made = CACHE / f"packages-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:12]}.tar"
    if not made.exists():
        for old in CACHE.glob("packages-*.tar"):
            old.unlink()
        part = CACHE / "packages.part"
        bootstrap(part, host_sources(), names, variant="apt", dpkg=_DPKG, step=lambda: None)
        part.rename(made)
    return made


def _make_ready(root: Path, source: Path) -> None:
    """What Vagrant wants of a box, and what bootstrap makes of the tree at /vagrant."""
    for name in ("dev", "proc", "run", "sys", "tmp"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for key in root.glob("etc/ssh/ssh_host_*"):
        key.unlink()
    for name in filter(lambda name: Path(name).exists(), _HOST_FILES):
        shutil.copyfile(name, root / name[1:])
    shutil.copytree(source, root / "vagrant", symlinks=True)
    within(root, "useradd", "--create-home", "--shell", "/bin/bash", "vagrant")
    within(root, "/vagrant/scripts/bootstrap")
    # An emulated processor takes minutes for that.
    python = "/vagrant/.venv/bin/python"
    within(root, python, "-m", "compileall", "-q", "-x", "/[.]venv/", "/vagrant")
    within(root, "chown", "-R", "vagrant:vagrant", "/vagrant")
    for name in _GONE:
        path = root / name[1:]
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for name, text in _FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "etc/sudoers.d/vagrant").chmod(0o440)
    ssh = root / "home/vagrant/.ssh"
    ssh.mkdir(mode=0o700)
    (key,) = Path("/").glob(_KEYS[1:])
    shutil.copyfile(key, ssh / "authorized_keys")
    within(root, "chown", "-R", "vagrant:vagrant", str(ssh.relative_to(root)))


def within(root: Path, *argv: str) -> None:
    """Run it in that system, with the host's network; its mounts and processes end with it."""
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
    run(*apart, "sh", "-c", _ENTER, str(root), *argv)
