# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A built image in plain QEMU without any of Satchel's volumes; nothing is written to the image."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypervisor import MachineSpec
from images import BuiltImage
from replay import AgentChannel

BOOT_SECONDS = 120.0
_PLAIN = "usb=off,sata=off,smbus=off,vmport=off,smm=off,graphics=off,memory-backend=ram"


@dataclass
class Guest:
    """A running guest. ready_seconds: from QEMU's start until its service was ready."""

    channel: AgentChannel
    ready_seconds: float
    ram: Path

    def shell(self, script: str) -> str:
        """The output of a shell script in the guest, which must succeed."""
        status, output = self.channel.run(["/bin/sh", "-c", script], 60.0)
        assert status == 0, output
        return output.decode()

    def nonzero_ram(self) -> int:
        """Bytes of RAM in blocks that are not zero."""
        count = 0
        with self.ram.open("rb") as file:
            while block := file.read(4096):
                count += bool(block.strip(b"\0"))
        return count * 4096


@contextlib.contextmanager
def running(image: BuiltImage, folder: Path) -> Iterator[Guest]:
    """Boots the image; its sockets, RAM and console are in `folder`. Gone afterwards."""
    started = time.monotonic()
    process = subprocess.Popen(_argv(image, folder))
    try:
        with AgentChannel.connect(folder / "agent") as channel:
            channel.wait_ready(BOOT_SECONDS)
            yield Guest(channel, time.monotonic() - started, folder / "ram")
    except BaseException as error:
        console = folder / "console"
        error.add_note(console.read_text(errors="replace")[-2000:] if console.exists() else "")
        raise
    finally:
        process.kill()
        process.wait()


def _argv(image: BuiltImage, folder: Path) -> list[str]:
    spec = MachineSpec(memory_mib=image.recipe.memory_mib, disks=("disk0",))
    argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"]
    argv += ["-machine", f"{spec.machine_type},{_PLAIN}", "-accel", "tcg", "-cpu", spec.cpu_model]
    memory = f"size={spec.memory_bytes},mem-path={folder / 'ram'},share=on"
    argv += ["-m", str(spec.memory_mib), "-object", f"memory-backend-file,id=ram,{memory}"]
    argv += ["-rtc", "base=utc,clock=vm", "-no-reboot", "-serial", f"file:{folder / 'console'}"]
    argv += ["-chardev", f"socket,id=agent,path={folder / 'agent'},server=on,wait=off"]
    argv += ["-device", "virtio-serial-pci,max_ports=2"]
    argv += ["-device", "virtserialport,chardev=agent,name=org.satchel.agent"]
    argv += ["-drive", f"file={image.disk},format=raw,if=none,id=disk0,snapshot=on"]
    argv += ["-device", "virtio-blk-pci,drive=disk0"]
    argv += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append"]
    argv += [image.boot(spec).cmdline]
    return argv
