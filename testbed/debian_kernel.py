# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""This host's files under Debian's cloud kernel, for tests of what the host's own kernel lacks.

`python -m testbed.debian_kernel COMMAND...` boots a QEMU machine whose root is the host's, through
virtiofs, below an overlay that is thrown away; runs COMMAND in it as root, in the same folder; and
ends with its exit code. The machine has no network but what COMMAND makes. With the module kvm_amd
it has a KVM that works, on any host: the processor that QEMU emulates has SVM.
"""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from console import run_program
from images import debian_kernel
from satchel.errors import UnavailableError, UnsupportedError
from testbed.built import cache_folder
from testbed.starting import await_up

VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")

MODULES = ("virtio_pci", "virtiofs", "overlay", "sch_netem", "veth", "tun")

MEMORY = "2G"

FIRST = (
    "/bin/sh",
    "-c",
    'echo -10 2>/dev/null >/proc/self/autogroup; exec nice -n -10 "$0" "$@"',
)
"""Its clocks go by the host's. A machine that gets a tenth of a processor cannot even serve its
timers, least of all those of a guest in it, and comes no further. It has a session of its own:
where the kernel shares processors out by session, a nice value counts for nothing beside others."""

INIT = """\
#!/bin/busybox sh
# The host's root below a tmpfs, then the command; its exit code goes to the host's folder.
b=/bin/busybox
$b mount -t proc proc /proc
for m in $($b cat /modules/order); do $b insmod /modules/$m; done
for word in $($b cat /proc/cmdline); do
  case $word in folder=*) folder=${word#folder=} ;; shared=*) shared=${word#shared=} ;; esac
done
$b mkdir /host /over /new
$b mount -t virtiofs host /host
$b mount -t tmpfs over /over
$b mkdir /over/upper /over/work
$b mount -t overlay -o lowerdir=/host,upperdir=/over/upper,workdir=/over/work root /new
$b mount -t proc proc /new/proc
$b mount -t sysfs sys /new/sys
$b mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
$b mount -t devtmpfs dev /new/dev
$b mkdir -p /new/dev/shm /new/dev/pts
[ -z "$shared" ] || $b mount --bind "/host$shared" "/new$shared"
for d in dev/shm run; do $b mount -t tmpfs tmp /new/$d; done
$b ip link set lo up
# As udev has it: who is in a group of its own may use it.
[ ! -e /new/dev/kvm ] || { $b chown 0:104 /new/dev/kvm && $b chmod 660 /new/dev/kvm; }
# The new root on top of ours, as switch_root has it: in a mere chroot nobody gets a user namespace.
cd /new
$b mount -o move /new /
$b chroot . /bin/sh "$folder/command"
echo $? >"/host$folder/status"
$b poweroff -f
"""


class GuestFailed(UnavailableError):
    """The machine did not reach the end of the command."""


def require() -> None:
    """Raises UnsupportedError where this cannot work."""
    if not VIRTIOFSD.exists():
        raise UnsupportedError(
            "cannot run a command under Debian's kernel",
            why=f"{VIRTIOFSD} is missing",
            fix="install qemu-system-common of Debian 12",
        )


def run(
    argv: Sequence[str],
    *,
    seconds: float,
    output: int | None = None,
    modules: Sequence[str] = (),
    memory: str = MEMORY,
    processors: int = 2,
    shared: Path | None = None,
) -> int:
    """Run `argv` in this folder under Debian's cloud kernel; its exit code. Needs root.

    modules: of the kernel, loaded before, beside MODULES. memory: of the machine, as QEMU writes
    it; what COMMAND writes is in it. processors: that it has. shared: a folder, without spaces in
    its path, in which what COMMAND writes stays. What it says goes to the descriptor `output`, by
    default ours. Raises UnsupportedError, GuestFailed after `seconds` too, and what getting the
    kernel from Debian raises.
    """
    require()
    kernel = _kernel((*MODULES, *modules))
    with tempfile.TemporaryDirectory(prefix="satchel-guest-") as name:
        folder = Path(name)
        lines = [
            "export HOME=/root LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1",
            "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join(argv)}",
        ]
        (folder / "command").write_text("\n".join(lines) + "\n")
        with _shared_root(folder) as socket:
            try:
                subprocess.run(
                    _machine(kernel, socket, folder, memory, processors, shared),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    timeout=seconds,
                    check=False,
                    start_new_session=True,
                )
            except subprocess.TimeoutExpired as error:
                raise GuestFailed(f"`{argv[0]}` takes over {seconds:.0f} s") from error
        status = folder / "status"
        if not status.exists():
            raise GuestFailed(f"the machine ended before `{argv[0]}` did")
        return int(status.read_text())


def _machine(
    kernel: Path, socket: Path, folder: Path, memory: str, processors: int, shared: Path | None
) -> list[str]:
    argv = [*FIRST, "qemu-system-x86_64", "-nodefaults", "-no-reboot", "-display", "none"]
    argv += [
        "-machine",
        "q35",
        "-cpu",
        "max",
        "-accel",
        "tcg,thread=multi",
        "-smp",
        str(processors),
    ]
    argv += ["-m", memory, "-numa", "node,memdev=ram"]
    argv += ["-object", f"memory-backend-memfd,id=ram,size={memory},share=on"]
    argv += ["-chardev", f"socket,id=root,path={socket}"]
    argv += ["-device", "vhost-user-fs-pci,chardev=root,tag=host"]
    argv += ["-kernel", str(kernel / "vmlinuz"), "-initrd", str(kernel / "initrd")]
    argv += ["-append", f"console=ttyS0 quiet panic=-1 folder={folder} shared={shared or ''}"]
    return [*argv, "-serial", "stdio", "-monitor", "none"]


@contextlib.contextmanager
def _shared_root(folder: Path) -> Iterator[Path]:
    """The socket of a virtiofsd that shares the host's root; nothing of it is left afterwards."""
    socket, log = folder / "root.sock", folder / "virtiofsd.log"
    argv = [*FIRST, str(VIRTIOFSD), f"--socket-path={socket}", "-o", "source=/"]
    argv += ["-o", "cache=always", "-o", "sandbox=chroot"]
    with log.open("wb") as said:
        server = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
    try:
        await_up("virtiofsd", server, socket.exists, log)
        yield socket
    finally:
        server.terminate()
        server.wait()


def _kernel(modules: Sequence[str]) -> Path:
    """A folder with `vmlinuz` and `initrd`, made when it is first needed."""
    key = hashlib.sha256("\n".join([INIT, *modules]).encode()).hexdigest()
    folder = cache_folder() / "layers" / f"testbed-kernel-{key[:12]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    files = debian_kernel(modules, INIT)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        made = Path(name) / "kernel"
        made.mkdir()
        (made / "vmlinuz").write_bytes(files.vmlinuz)
        (made / "initrd").write_bytes(files.initrd)
        made.rename(folder)
    return folder


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("argv", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--seconds", default=1800.0, help="When to give up.")
@click.option("--module", "modules", multiple=True, help="Of the kernel, to load; repeatable.")
@click.option("--memory", default=MEMORY, help="Of the machine, as QEMU writes it.")
@click.option(
    "--shared",
    type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True),
    help="A folder in which what COMMAND writes stays.",
)
def program(
    argv: tuple[str, ...],
    seconds: float,
    modules: tuple[str, ...],
    memory: str,
    shared: Path | None,
) -> None:
    """Run COMMAND in this folder under Debian's cloud kernel."""
    sys.exit(run(argv, seconds=seconds, modules=modules, memory=memory, shared=shared))


if __name__ == "__main__":
    run_program(program, "testbed.debian_kernel")
