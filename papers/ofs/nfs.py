# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The photo application's files by NFS 4.2, between two hosts of this machine's own kernel.

    python -m papers.ofs.nfs PREPARED RESULT ROUND_TRIP RATE

What papers.ofs.photographs runs under testbed.debian_kernel: home is an nfsd of the kernel that
exports a folder in memory, the mobile mounts it over the link. RESULT is written, as JSON. Needs
root, nfsd and nfsv4 in the kernel, and nfs-kernel-server with nfs-common.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from papers.ofs.network import Link
from papers.ofs.offload import counted, files_alone, shaped
from testbed import Host

CONTROL = Path("/proc/fs/nfsd")
SERVERS = 8
TERMS = "rw,sync,no_root_squash,insecure,no_subtree_check,fsid=0"
GRACE_SECONDS = 10
"""In which a server that has just begun opens nothing; the least that the kernel takes."""


@contextlib.contextmanager
def exported(home: Host, mobile: Host, folder: Path) -> Iterator[Path]:
    """home's folder as mobile mounts it, once files can be made there."""
    root, place = folder / "root", folder / "mobile"
    for made in (root, place):
        made.mkdir()
    with contextlib.ExitStack() as stack:
        _mounted(stack, home, "tmpfs", "home", root)
        _mounted(stack, home, "nfsd", "nfsd", CONTROL)
        for name in ("nfsv4gracetime", "nfsv4leasetime"):
            (CONTROL / name).write_text(str(GRACE_SECONDS))
        _run(home, "exportfs", "-o", TERMS, f"{mobile.address}:{root}")
        stack.callback(_run, home, "exportfs", "-ua")
        mountd = subprocess.Popen([*home.prefix, "rpc.mountd", "-F", "-N", "2", "-N", "3"])
        stack.callback(mountd.wait)
        stack.callback(mountd.terminate)
        _run(home, "rpc.nfsd", "-N", "3", "-V", "4.2", str(SERVERS))
        stack.callback(_run, home, "rpc.nfsd", "0")
        _mounted(stack, mobile, "nfs4", f"{home.address}:/", place, "-o", "vers=4.2")
        (place / "ready").touch()  # waits for the end of the server's grace
        (place / "ready").unlink()
        yield place


def _mounted(
    stack: contextlib.ExitStack, host: Host, kind: str, what: str, place: Path, *words: str
) -> None:
    """Until the stack is closed. The host's prefix keeps this process's mounts."""
    _run(host, "mount", "-t", kind, what, str(place), *words)
    stack.callback(_run, host, "umount", "-l", str(place))


def _run(host: Host, *argv: str) -> None:
    subprocess.run([*host.prefix, *argv], check=True)


def program(prepared: Path, result: Path, link: Link) -> None:
    """The command line."""
    with tempfile.TemporaryDirectory(prefix="satchel-nfs-") as name, shaped(link) as pair:
        folder = Path(name)
        with exported(pair.core, pair.leaf, folder) as mobile:
            root = folder / "root"
            found = counted(pair, lambda: files_alone(prepared, mobile, root, "--reopen"))
    result.write_text(json.dumps(dataclasses.asdict(found)))


if __name__ == "__main__":
    PREPARED, RESULT, ROUND_TRIP, RATE = sys.argv[1:]
    program(Path(PREPARED), Path(RESULT), Link(float(ROUND_TRIP), float(RATE)))

__all__ = ["exported"]
