# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel of a guest and an initial RAM disk that does no more than find /dev/vda.

The RAM disk is BusyBox, a script and the virtio modules: Debian's cloud kernel has ext4 built in.
It is needed at home alone, for the first boot of an image.
"""

from __future__ import annotations

import lzma
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from images.debian import bootstrap
from images.sources import host_sources
from satchel.errors import UnsupportedError

PACKAGES = ("linux-image-cloud-amd64", "busybox-static")
MODULES = ("virtio_pci", "virtio_blk", "virtio_console")
SHARES_MODULES = (*MODULES, "fuse")
"""For a guest that mounts shares."""

INIT = """\
#!/bin/busybox sh
# Mounts /dev/vda and hands over to the program that the kernel's command line names with init=.
b=/bin/busybox
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
for m in $($b cat /modules/order); do $b insmod /modules/$m; done
flags=defaults
for word in $($b cat /proc/cmdline); do
  case $word in
    init=*) init=${word#init=} ;;
    rootflags=*) flags=${word#rootflags=} ;;
  esac
done
tries=0
until [ -b /dev/vda ] || [ $tries = 200 ]; do $b sleep 0.05; tries=$((tries + 1)); done
$b mount -t ext4 -o "$flags" /dev/vda /root || exec $b echo "no root file system on /dev/vda"
$b umount /proc
$b umount /dev
exec $b switch_root /root "$init"
"""

MODULE_LIMIT = 64 << 20
"""Bytes of a module of the kernel."""

_ALIGN = 4


@dataclass(frozen=True)
class KernelFiles:
    """What was taken out of the kernel's packages: the bytes of a bzImage, of an initrd, and of a
    BusyBox that needs no libraries."""

    vmlinuz: bytes
    initrd: bytes
    busybox: bytes


def kernel_files(packages: Path, modules: Sequence[str] = MODULES, init: str = INIT) -> KernelFiles:
    """Read a tar of PACKAGES and assemble the RAM disk. Raises UnsupportedError if it lacks one.

    modules: what `init`, a BusyBox script, finds in /modules, in the order of /modules/order.
    """
    wanted = re.compile(
        r"\./(boot/vmlinuz-.*|(usr/)?bin/busybox|(usr/)?lib/modules/.*(\.ko(\.xz)?|/modules\.builtin))"
    )
    found: dict[str, bytes] = {}
    with tarfile.open(packages) as tar:
        for member in tar:
            if member.isreg() and wanted.fullmatch(member.name):
                file = tar.extractfile(member)
                assert file is not None
                found[_short_name(member.name)] = file.read()
    loaded = _loaded(found, modules)
    entries = [("bin/busybox", 0o100755, found["busybox"]), ("init", 0o100755, init.encode())]
    entries += [(f"modules/{name}.ko", 0o100644, content) for name, content in loaded.items()]
    names = "".join(f"{name}.ko\n" for name in loaded)
    entries.append(("modules/order", 0o100644, names.encode()))
    return KernelFiles(found["vmlinuz"], initial_ram_disk(entries), found["busybox"])


def debian_kernel(modules: Sequence[str], init: str) -> KernelFiles:
    """Debian's cloud kernel, fetched now, and a RAM disk with these modules that runs `init`.

    Raises what `images.build` raises when it cannot get packages.
    """
    with tempfile.TemporaryDirectory(prefix="satchel-kernel-") as folder:
        packages = Path(folder) / "packages.tar"
        bootstrap(packages, host_sources(), PACKAGES, variant="extract", step=lambda: None)
        return kernel_files(packages, modules, init)


def initial_ram_disk(files: Sequence[tuple[str, int, bytes]]) -> bytes:
    """A cpio archive (newc) of these paths, modes and contents, with the folders that a boot needs.

    The same files give the same bytes. It has /dev/console, without which init has no output.
    """
    folders = [(name, 0o040755, b"") for name in ("bin", "dev", "modules", "proc", "root")]
    records = [_record(n, *entry) for n, entry in enumerate([*folders, *files], start=1)]
    records.append(_record(len(records) + 1, "dev/console", 0o020600, b"", device=(5, 1)))
    records.append(_record(0, "TRAILER!!!", 0, b""))
    return b"".join(records)


def _short_name(path: str) -> str:
    name = path.rsplit("/", 1)[1]
    return "vmlinuz" if name.startswith("vmlinuz-") else name.replace("-", "_")


def _unpacked(module: bytes) -> bytes:
    unpacker = lzma.LZMADecompressor()
    content = unpacker.decompress(module, MODULE_LIMIT)
    if not unpacker.eof:
        raise UnsupportedError("a kernel module is too large", why=f"over {MODULE_LIMIT} bytes")
    return content


def _loaded(found: dict[str, bytes], wanted: Sequence[str]) -> dict[str, bytes]:
    """The modules and what they depend on, each after what it needs, without those that are part of
    the kernel. Since Debian 13 they are compressed in the package, and are not here: BusyBox's
    insmod does not know how."""
    order: dict[str, bytes] = {}
    builtin = {_short_name(line) for line in found.get("modules.builtin", b"").decode().split()}

    def visit(name: str) -> None:
        if name in order or f"{name}.ko" in builtin:
            return
        packed = found.get(f"{name}.ko.xz")
        content = found[f"{name}.ko"] if packed is None else _unpacked(packed)
        for needed in _depends(content):
            visit(needed)
        order[name] = content

    try:
        found["vmlinuz"], found["busybox"]
        for name in wanted:
            visit(name)
    except KeyError as error:
        raise UnsupportedError(
            "cannot make an initial RAM disk", why=f"Debian's packages lack {error.args[0]}"
        ) from error
    return order


def _depends(module: bytes) -> Iterator[str]:
    """The names in a module's .modinfo section, `depends=a,b`."""
    found = re.search(rb"\0depends=([a-z0-9_,-]*)\0", module)
    for name in (found.group(1).decode() if found else "").split(","):
        if name:
            yield name.replace("-", "_")


def _record(
    inode: int, path: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)
) -> bytes:
    name = path.encode() + b"\0"
    links = 2 if mode & 0o040000 else 1
    numbers = (inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % number for number in numbers) + name
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGN)
