# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A whole disk as clouds have them: Debian with GRUB, systemd, cloud-init and an SSH server.

Its partition table is a GPT. Like Debian's own cloud images it starts under a BIOS (GRUB in a
partition of its own) and under UEFI (GRUB on the EFI system partition). It knows nothing of
Satchel. It is made once, in build/, which takes some minutes; root is needed for that.
"""

import fcntl
import struct
import subprocess
import tempfile
from pathlib import Path

from images.debian import bootstrap
from images.sources import host_sources

CACHE = Path(__file__).parents[2] / "build" / "cloud-disk"
PACKAGES = ("linux-image-cloud-amd64", "systemd-sysv", "udev", "cloud-init", "openssh-server")
MIB = 1 << 20
SECTOR = 512
DISK_MIB = 1536
BIOS_AT, ESP_AT, ROOT_AT = 1, 2, 40
"""Where the partitions begin, in MiB; each ends where the next begins, the last with the disk."""

_KERNEL_SECTOR = 0x5C
_BLOCK_LIST = 0x1F4
"""Where GRUB's first sector says where its second is, and that where the others are."""

_SEARCH = "search --no-floppy --label --set=root satchel-root"
_GRUB = f"""\
{_SEARCH}
linux /vmlinuz root=LABEL=satchel-root ro console=ttyS0 quiet mitigations=off {{words}}
initrd /initrd.img
boot
"""
_TABLE = f"""\
label: gpt
unit: sectors
start={BIOS_AT * 2048}, size={(ESP_AT - BIOS_AT) * 2048}, type=21686148-6449-6E6F-744E-656564454649
start={ESP_AT * 2048}, size={(ROOT_AT - ESP_AT) * 2048}, type=U
start={ROOT_AT * 2048}, size={{sectors}}, type=L
"""


def cloud_disk() -> Path:
    """The disk as qcow2, made now unless it is there."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        disk = CACHE / "disk.qcow2"
        if not disk.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as name:
                _make(Path(name)).rename(disk)
    return disk


def _make(scratch: Path) -> Path:
    packages = CACHE / "packages.tar"
    if not packages.exists():
        made = scratch / "packages.tar"
        bootstrap(made, host_sources(), PACKAGES, variant="minbase", step=lambda: None)
        made.rename(packages)
    root, disk = scratch / "root", scratch / "disk"
    root.mkdir()
    run("tar", "-C", str(root), "--numeric-owner", "--xattrs", "-xf", str(packages))
    for key in root.glob("etc/ssh/ssh_host_*"):
        key.unlink()
    for name in ("dev", "proc", "run", "sys", "tmp"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/machine-id").write_text("")
    bootable(root, disk, DISK_MIB)
    target = scratch / "disk.qcow2"
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(disk), str(target))
    return target


def bootable(root: Path, disk: Path, mib: int, words: str = "") -> None:
    """Make `disk`, of so many MiB, of the system in `root`, which gets its fstab and GRUB's menu.

    words: more of the kernel's command line.
    """
    with disk.open("xb") as file:
        file.truncate(mib * MIB)
    run("sfdisk", "-q", str(disk), text=_TABLE.format(sectors=(mib - 1 - ROOT_AT) * 2048))
    (root / "etc/fstab").write_text("LABEL=satchel-root / ext4 noatime 0 1\n")
    (root / "boot/grub").mkdir(parents=True, exist_ok=True)
    (root / "boot/grub/grub.cfg").write_text(_GRUB.format(words=words))
    made = ["mke2fs", "-q", "-t", "ext4", "-L", "satchel-root", "-d", str(root)]
    made += ["-E", f"offset={ROOT_AT * MIB}"]
    run(*made, str(disk), f"{(mib - 1 - ROOT_AT) * 1024}k")
    with tempfile.TemporaryDirectory(dir=disk.parent) as scratch:
        _start_by_bios(disk, Path(scratch))
        _start_by_uefi(disk, Path(scratch))


def _start_by_bios(disk: Path, scratch: Path) -> None:
    """What grub-install does, without a block device."""
    core = scratch / "core.img"
    modules = ("biosdisk", "part_gpt", "ext2", "normal", "linux", "search", "search_label")
    run("grub-mkimage", "-O", "i386-pc", "-o", str(core), "-p", "(hd0,gpt3)/boot/grub", *modules)
    at = BIOS_AT * MIB // SECTOR
    boot = bytearray(Path("/usr/lib/grub/i386-pc/boot.img").read_bytes()[:440])
    struct.pack_into("<Q", boot, _KERNEL_SECTOR, at)
    rest = bytearray(core.read_bytes())
    struct.pack_into("<Q", rest, _BLOCK_LIST, at + 1)
    with disk.open("r+b") as file:
        file.write(boot)
        file.seek(BIOS_AT * MIB)
        file.write(rest)


def _start_by_uefi(disk: Path, scratch: Path) -> None:
    early, program, system = scratch / "early.cfg", scratch / "grub.efi", scratch / "esp"
    early.write_text(f"{_SEARCH}\nprefix=($root)/boot/grub\n")
    modules = ("part_gpt", "ext2", "normal", "linux", "search", "search_label", "fat")
    run("grub-mkimage", "-O", "x86_64-efi", "-o", str(program), "-c", str(early),
         "-p", "/boot/grub", *modules)  # fmt: skip
    with system.open("xb") as file:
        file.truncate((ROOT_AT - ESP_AT) * MIB)
    run("mkfs.vfat", "-F", "32", "-n", "ESP", str(system))
    run("mmd", "-i", str(system), "::/EFI", "::/EFI/BOOT")
    run("mcopy", "-i", str(system), str(program), "::/EFI/BOOT/BOOTX64.EFI")
    with disk.open("r+b") as file:
        file.seek(ESP_AT * MIB)
        file.write(system.read_bytes())


def run(*argv: str, text: str = "") -> None:
    """Run it to its end, which must be a good one."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"


if __name__ == "__main__":
    print(cloud_disk())
