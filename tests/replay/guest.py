# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A QEMU guest whose init is the agent, and whose service is BusyBox' httpd with a CGI script."""

import gzip
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from images.initrd import initial_ram_disk
from replay import agent_program
from tests.hypervisor import guest

COUNTER = """\
#!/bin/busybox sh
echo "x" >> /srv/count
printf 'Content-Type: text/plain\\r\\n\\r\\n'
echo "$(busybox wc -l < /srv/count) $(busybox date +%s) $(busybox id -u)"
"""
MODPROBE = "#!/bin/busybox sh\nfor m in {names}; do busybox insmod /modules/$m.ko; done\n"
HOLDER = Path(__file__).with_name("holder.c")
ALLOCATOR = Path(__file__).with_name("allocator.c")
SHARES = "shares=/satchel\n"
SERVICE = """\
# The guest's service.
command=exec busybox httpd -f -p 127.0.0.1:8080 -h /www
port=8080
user=www
"""
FOLDERS = ("etc", "etc/satchel", "sbin", "srv", "sys", "run", "tmp", "www", "www/cgi-bin")


def initial_files(service: str = SERVICE, **programs: Path) -> bytes:
    """A compressed initial RAM disk in which the agent is init; programs: go to /bin."""
    busybox = Path("/bin/busybox").read_bytes()
    guest.make_guest()  # has the modules here
    modules = [(f"{name}.ko", guest.CACHE / "modules" / f"{name}.ko") for name in guest.MODULES]
    files: list[tuple[str, int, bytes]] = [(name, 0o040777, b"") for name in FOLDERS]
    files += [
        ("init", 0o100755, agent_program().read_bytes()),
        ("bin/busybox", 0o100755, busybox),
        ("bin/sh", 0o120777, b"busybox"),
        ("sbin/modprobe", 0o100755, MODPROBE.format(names=" ".join(guest.MODULES)).encode()),
        ("etc/hostname", 0o100644, b"a-guest\n"),
        ("etc/passwd", 0o100644, b"root:x:0:0::/root:/bin/sh\nwww:x:33:34::/www:/bin/sh\n"),
        ("etc/satchel/service", 0o100644, service.encode()),
        ("www/index.html", 0o100644, bytes(range(256)) * (3 << 12)),
        ("www/cgi-bin/count", 0o100755, COUNTER.encode()),
    ]
    files += [(f"bin/{name}", 0o100755, path.read_bytes()) for name, path in programs.items()]
    files += [(f"modules/{name}", 0o100644, path.read_bytes()) for name, path in modules]
    return gzip.compress(initial_ram_disk(files), 1)


@contextmanager
def machine(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A booting machine under TCG: its process, and the socket of its agent's port."""
    boot = guest.make_guest()
    initrd, port = folder / "initrd.gz", folder / "agent"
    initrd.write_bytes(initial_files())
    argv = ["qemu-system-x86_64", "-machine", "pc-q35-7.2,accel=tcg", "-m", "192"]
    argv += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-kernel", str(boot.kernel), "-initrd", str(initrd)]
    argv += ["-append", "console=ttyS0 quiet panic=-1"]
    argv += ["-serial", f"file:{folder / 'console.log'}"]
    argv += ["-chardev", f"socket,id=agent,path={port},server=on,wait=off"]
    argv += ["-device", "virtio-serial-pci"]
    argv += ["-device", "virtserialport,chardev=agent,name=org.satchel.agent"]
    with subprocess.Popen(argv) as process:
        try:
            yield process, port
        finally:
            process.kill()
            print((folder / "console.log").read_text(errors="replace"))
