# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program in QEMU's place that tries to get out: `python -I -S attacker.py TARGETS MODE`.

TARGETS is JSON with what the host has: files, folders, sockets, processes. It says on its output,
as JSON, what it could do, by name; on the host itself that is everything. It knows nothing of how a
cell is built and changes nothing for good. MODE `survey`: what it sees and could write. `memory`,
`forks`, `file`: takes as much as it gets, and says how much that was.
"""

import contextlib
import ctypes
import errno
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20


def reads(path: str) -> bool:
    with Path(path).open("rb") as file:
        return len(file.read(16)) > 0


def writes(path: str) -> bool:
    with Path(path).open("ab") as file:
        file.write(b"x")
    return True


def shortens(path: str) -> bool:
    """To the size that it has, or to nothing, in each way that there is."""
    size = Path(path).stat().st_size
    ways: tuple[Callable[[], object], ...] = (
        lambda: os.truncate(path, size),
        lambda: with_open(path, lambda descriptor: os.ftruncate(descriptor, size)),
        lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
        lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)),
        lambda: syscall(85, ctypes.addressof(ctypes.create_string_buffer(path.encode())), 0o600),
        lambda: opens_as_told(path, os.O_RDWR | os.O_TRUNC),
        lambda: with_open(path, lambda descriptor: syscall(285, descriptor, 0x08, 0, 4096)),
    )
    return any([succeeds(way) for way in ways])


def opens_as_told(path: str, flags: int) -> bool:
    """By openat2(2), whose flags are in memory."""
    how = (ctypes.c_uint64 * 3)(flags, 0, 0)
    name = ctypes.create_string_buffer(path.encode())
    return syscall(437, -100, ctypes.addressof(name), ctypes.addressof(how), ctypes.sizeof(how))


def with_open(path: str, action: Callable[[int], object]) -> None:
    """285 above is fallocate(2), which takes the first block out where a file system can do it."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        action(descriptor)
    finally:
        os.close(descriptor)


def succeeds(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


def makes_file(folder: str) -> bool:
    path = Path(folder, f"made-{os.getpid()}")
    path.touch(exist_ok=False)
    path.unlink()
    return True


def connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
    return True


def lists(path: str) -> bool:
    return any(True for _ in Path(path).iterdir())


def connects_by_tcp(port: int) -> bool:
    with socket.socket(socket.AF_INET) as one:
        one.settimeout(5)
        one.connect(("127.0.0.1", port))
    return True


def listens_on_the_network() -> bool:
    with socket.socket(socket.AF_INET6) as one:
        one.bind(("::", 0))
        one.listen()
    return True


def makes_pairs_of_other_families() -> bool:
    """socketpair(2) of every family but AF_UNIX: the kernel has made a socket if it says that only
    the pair is impossible."""
    for family in range(2, 46):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            with contextlib.suppress(OSError):
                syscall(53, family, kind, 0, ctypes.addressof(ctypes.create_string_buffer(8)))
                return True
            if ctypes.get_errno() == errno.EOPNOTSUPP:
                return True
    return False


def signals(pid: int) -> bool:
    os.kill(pid, 0)
    return True


def reaches_the_memory_of(pid: int) -> bool:
    """process_vm_readv(2), with a place that is none: whoever may not is told so before."""
    piece = (ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    nowhere = (ctypes.c_uint64 * 2)(16, 8)
    try:
        return syscall(310, pid, ctypes.addressof(piece), 1, ctypes.addressof(nowhere), 1, 0)
    except OSError as error:
        return error.errno == errno.EFAULT


def traces(pid: int) -> bool:
    """ptrace(2): attaches, and lets it go on."""
    syscall(101, 16, pid, 0, 0)
    os.waitpid(pid, 0x40000000)
    return syscall(101, 17, pid, 0, 0)


def takes_a_file_of(pid: int) -> bool:
    """pidfd_getfd(2): its standard input, which is open to be read."""
    process = os.pidfd_open(pid)
    number = LIBC.syscall(ctypes.c_long(438), process, 0, 0)
    return number >= 0 and len(os.pread(number, 16, 0)) > 0


def sees_processes() -> bool:
    return any(path.name.isdigit() for path in Path("/proc").iterdir())


def syscall(number: int, *arguments: int) -> bool:
    """x86_64 only, as our machines are."""
    if LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(one) for one in arguments)) < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return True


def in_a_child(action: Callable[[], bool]) -> bool:
    """Whether it succeeds; what it changes is the child's alone."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os._exit(0 if action() else 1)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def mounts() -> bool:
    return bool(LIBC.mount(b"none", b"/usr", b"tmpfs", ctypes.c_ulong(0), None) == 0)


def makes_a_namespace() -> bool:
    return bool(LIBC.unshare(0x10000000) == 0)


def changes_its_root() -> bool:
    os.chroot("/usr")
    return True


def mounts_in_a_namespace() -> bool:
    """Unshares first, in a child, so the host keeps what it has."""
    new = 0x20000 | (0 if os.geteuid() == 0 else 0x10000000)
    if LIBC.unshare(new) != 0:
        return False
    LIBC.mount(None, b"/", None, ctypes.c_ulong(0x4000 | 0x40000), None)
    return mounts()


def is_root() -> bool:
    os.setresuid(0, 0, 0)
    return os.geteuid() == 0 and reads("/etc/shadow")


def sees_the_page_cache() -> bool:
    """mincore(2) of a file of the host: which of its pages another program has read."""
    LIBC.mmap.restype = ctypes.c_void_p
    with Path("/usr/bin/env").open("rb") as file:
        start = LIBC.mmap(None, ctypes.c_size_t(4096), 1, 1, file.fileno(), ctypes.c_long(0))
    return syscall(27, start, 4096, ctypes.addressof(ctypes.create_string_buffer(1)))


def has_capabilities() -> bool:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    if LIBC.capget(ctypes.byref(header), ctypes.byref(data)) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    return any(data)


def holds_more_files(known: Iterable[int]) -> bool:
    for number in range(1024):
        if number in known:
            continue
        with contextlib.suppress(OSError):
            os.fstat(number)
            return True
    return False


def attempts(targets: dict[str, Any]) -> dict[str, Callable[[], bool]]:
    found: dict[str, Callable[[], bool]] = {}
    for attempt, kind in (
        *((reads, "files"), (writes, "own"), (shortens, "own"), (makes_file, "folders")),
        *((lists, "folders"), (connects, "sockets")),
    ):
        for path in targets[kind]:
            found[f"{attempt.__name__} {path}"] = partial(attempt, path)
    for attempt_on in (signals, reaches_the_memory_of, traces, takes_a_file_of):
        for pid in targets["processes"]:
            found[f"{attempt_on.__name__} {pid}"] = partial(attempt_on, pid)
    return found | {
        "reaches an abstract socket": lambda: connects("\0" + targets["abstract"]),
        "reaches a port of the host": lambda: connects_by_tcp(targets["port"]),
        "listens on the network": listens_on_the_network,
        "makes pairs of other families": makes_pairs_of_other_families,
        "sees processes": sees_processes,
        "sees the page cache": sees_the_page_cache,
        "has the environment": lambda: targets["variable"] in os.environ,
        "is root": lambda: in_a_child(is_root),
        "has capabilities": has_capabilities,
        "makes namespaces": lambda: in_a_child(makes_a_namespace),
        "mounts": lambda: in_a_child(mounts_in_a_namespace),
        "changes its root": lambda: in_a_child(changes_its_root),
        "opens a keyring": lambda: in_a_child(lambda: syscall(250, 0, -3, 1)),
        "sets up io_uring": lambda: in_a_child(
            lambda: syscall(425, 1, ctypes.addressof(ctypes.create_string_buffer(128)))
        ),
        "holds other descriptors": lambda: holds_more_files(targets["descriptors"]),
    }


def survey() -> dict[str, list[str]]:
    """Every place that it sees and could write, and every file outside of the system's folders."""
    writable, visible = [], []
    for folder, names, files in os.walk("/"):
        if folder == "/":
            names[:] = [name for name in names if name not in ("usr", "proc", "sys")]
        with contextlib.suppress(OSError):
            if makes_file(folder):
                writable.append(folder)
        for name in files:
            path = str(Path(folder, name))
            visible.append(path)
            if folder == "/dev":
                continue
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                writable.append(path)
    return {"writable": sorted(writable), "visible": sorted(visible)}


def take_memory() -> None:
    held = []
    for count in range(1, 1 << 20):
        try:
            piece = bytearray(MIB)
        except MemoryError:
            return
        piece[::4096] = b"x" * len(piece[::4096])
        held.append(piece)
        os.write(1, f"{count}\n".encode())


def take_processes() -> None:
    count = 0
    try:
        while count < 5000:
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
            count += 1
    except OSError:
        pass
    print(count, flush=True)


def take_file(path: str) -> None:
    written = 0
    with Path(path).open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while written < 1 << 30:
            written += file.write(bytes(MIB))
    print(written, flush=True)


def main() -> None:
    targets = json.loads(sys.argv[1])
    mode = sys.argv[2]
    if mode == "memory":
        take_memory()
    elif mode == "forks":
        take_processes()
    elif mode == "file":
        take_file(targets["own"][0])
    elif mode == "survey":
        print(json.dumps(survey()), flush=True)
    else:
        signal.signal(signal.SIGSYS, signal.SIG_IGN)
        succeeded = []
        for name, attempt in attempts(targets).items():
            try:
                if attempt():
                    succeeded.append(name)
            except Exception:
                continue
        print(json.dumps(sorted(succeeded)), flush=True)


main()
