# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A guest that is small and quick: Debian's cloud kernel, busybox, and the script `init`.

The kernel comes from the package sources that this host is configured with, and is kept in build/.
"""

import fcntl
import gzip
import lzma
import os
import subprocess
import tempfile
from pathlib import Path

from hypervisor import Boot

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / "build" / "test-guest"
MODULES = (
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_console",
    "virtio_blk",
    "fuse",
)
CMDLINE = "console=ttyS0 quiet panic=-1 no_timer_check"


def make_guest() -> Boot:
    """Kernel and initial RAM disk; made once, then reused while `init` stays the same."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = [CACHE / "vmlinuz", *(CACHE / "modules" / f"{name}.ko" for name in MODULES)]
        if not all(path.exists() for path in wanted):
            _fetch_kernel()
        _make_initrd()
    return Boot(CACHE / "vmlinuz", CACHE / "initrd.gz", CMDLINE)


def _fetch_kernel() -> None:
    listing = _run("apt-cache", "depends", "linux-image-cloud-amd64")
    package = next(line.split()[-1] for line in listing.splitlines() if "Depends: linux" in line)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        _run("apt-get", "download", "-qq", package, cwd=folder)
        (archive,) = Path(folder).glob("*.deb")
        _run("dpkg", "-x", str(archive), f"{folder}/root")
        root = Path(folder, "root")
        (CACHE / "modules").mkdir(exist_ok=True)
        for name in MODULES:
            (CACHE / "modules" / f"{name}.ko").write_bytes(_module(root, name))
        (kernel,) = (root / "boot").glob("vmlinuz-*")
        kernel.rename(CACHE / "vmlinuz")


def _module(root: Path, name: str) -> bytes:
    """Empty where it is part of the kernel, as some are since Debian 13; insmod refuses it then."""
    if not (found := list(root.rglob(f"{name}.ko*"))):
        return b""
    content = found[0].read_bytes()
    return lzma.decompress(content) if found[0].suffix == ".xz" else content


def _make_initrd() -> None:
    """A file per line of newc: init, busybox and the modules; then gzip, without a time in it."""
    files = {"init": HERE / "init", "bin/busybox": Path("/bin/busybox")}
    files |= {f"modules/{name}.ko": CACHE / "modules" / f"{name}.ko" for name in MODULES}
    archive = bytearray()
    for name in ("bin", "dev", "modules", "proc", "sys", "tmp"):
        archive += _entry(name, 0o040755, b"")
    for name, path in files.items():
        archive += _entry(name, 0o100755, path.read_bytes())
    archive += _entry("TRAILER!!!", 0, b"")
    new = CACHE / "initrd.new"
    new.write_bytes(gzip.compress(bytes(archive), 1, mtime=0))
    new.rename(CACHE / "initrd.gz")


def _entry(name: str, mode: int, content: bytes) -> bytes:
    label = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(label), 0)
    entry = b"070701" + b"".join(b"%08X" % field for field in fields) + label
    entry += bytes(-len(entry) % 4)
    return entry + content + bytes(-len(content) % 4)


def _run(*command: str, cwd: str | None = None) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=cwd, env=environment, check=False, capture_output=True)
    assert done.returncode == 0, f"{command}: {done.stderr!r}"
    return done.stdout.decode()
