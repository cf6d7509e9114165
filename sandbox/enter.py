# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Becomes a program inside a cell: `python -I -S enter.py ORDER -- PROGRAM ARGUMENT...`

Standard library only, run by path in a process of its own; it imports nothing of Satchel.

It joins the cell's namespaces and control groups, makes a child there and ends. The child is one
of whoever started this program (CLONE_PARENT), so that its exit status is not lost and nothing of
Python stays; its number goes to the descriptor `report`. It mounts what it was told to (a FUSE
session needs the rights of the cell's user namespace, and the program itself gets none), takes the
cell's user, drops all capabilities, and confines itself: limits, no new privileges, Landlock where
the kernel has it, a seccomp filter. Then it becomes the program.

ORDER is JSON: room, a pidfd of the cell's first process; report; uid and gid inside; groups that
are kept (/dev/kvm); tasks, the files of control groups to join; fuse, a folder to mount, or null;
listener, a listening socket, or null; writable, the files that may be written, and volumes, those
that may be, and not made shorter; limits, by name as in `resource`; threads_only, whether it may
make no processes.

Exit status 120: something here failed; the reason is on stderr. 127: no such program.
"""

import ctypes
import errno
import json
import os
import resource
import signal
import sys
from typing import Any

SETUP_FAILED = 120
NOT_FOUND = 127
FUSE_FD = 9
LISTEN_FD = 3
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin", "HOME": "/", "LANG": "C.UTF-8"}

_CLONE_PARENT = 0x8000
_CLONE_THREAD = 0x10000
_CLONE_NEW = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x20000
_CLONE_NEWTIME = 0x80
_JOIN = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
"""User, mount, process, network, IPC and host name."""

_MS_NOSUID, _MS_NODEV = 2, 4
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 38, 24, 47
_CAPABILITIES = 64
_CAPABILITY_VERSION = 0x20080522
_CLONE_CALL = {"x86_64": 56, "aarch64": 220}

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> int:
    result = int(getattr(_libc, name)(*arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _syscall(number: int, *arguments: Any) -> int:
    values = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return _call("syscall", ctypes.c_long(number), *values)


class Seccomp:
    """Deny what none of our programs does after it has started: a way around the cell or deeper
    into the kernel. libseccomp knows the numbers."""

    CALLS = (
        *("mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree"),
        *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "swapon", "swapoff"),
        *("unshare", "setns", "ptrace", "process_vm_readv", "process_vm_writev", "kcmp"),
        *("process_madvise", "pidfd_getfd", "bpf", "perf_event_open", "userfaultfd"),
        *("io_uring_setup", "io_uring_enter", "io_uring_register", "open_by_handle_at"),
        *("name_to_handle_at", "keyctl", "add_key", "request_key", "init_module"),
        *("finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "syslog"),
        *("acct", "quotactl", "quotactl_fd", "nfsservctl", "lookup_dcookie", "vhangup"),
        *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime", "iopl"),
        *("ioperm", "modify_ldt", "personality", "uselib", "ustat", "sysfs", "_sysctl"),
        *("mknod", "mknodat", "fanotify_init", "sethostname", "setdomainname", "mbind"),
        *("set_mempolicy", "migrate_pages", "move_pages", "vmsplice", "landlock_add_rule"),
        *("mincore", "cachestat"),
    )
    ALLOW = 0x7FFF0000
    DENY = 0x00050000
    NOT_EQUAL, LESS, EQUAL, MASKED_EQUAL = 1, 2, 4, 7
    TRUNCATE, COLLAPSE = 0x200, 0x08
    """O_TRUNC of open(2), which works on a file that is opened to be read, and
    FALLOC_FL_COLLAPSE_RANGE of fallocate(2)."""

    class Compare(ctypes.Structure):
        _fields_ = (
            ("argument", ctypes.c_uint),
            ("how", ctypes.c_int),
            ("a", ctypes.c_uint64),
            ("b", ctypes.c_uint64),
        )

    def __init__(self, otherwise: int = ALLOW) -> None:
        """otherwise: what happens to a call without a rule."""
        self._library = ctypes.CDLL("libseccomp.so.2")
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._library.seccomp_init.argtypes = [ctypes.c_uint32]
        self._library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
        self._library.seccomp_rule_add_array.argtypes = [
            *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint),
            ctypes.c_void_p,
        ]
        self._library.seccomp_load.argtypes = [ctypes.c_void_p]
        self._filter = self._library.seccomp_init(otherwise)
        if not self._filter:
            raise OSError(errno.ENOMEM, "seccomp_init failed")

    def allow(self, call: str, *conditions: tuple[int, ...]) -> None:
        self._rule(self.ALLOW, call, conditions)

    def deny(self, call: str, code: int = errno.EPERM, *conditions: tuple[int, ...]) -> None:
        self._rule(self.DENY | code, call, conditions)

    def _rule(self, action: int, call: str, conditions: tuple[tuple[int, ...], ...]) -> None:
        number = self._library.seccomp_syscall_resolve_name(call.encode())
        if number == -1:  # this library does not know it, and neither does its kernel
            return
        compare = (self.Compare * len(conditions))(*(self.Compare(*one) for one in conditions))
        pointer = ctypes.cast(compare, ctypes.c_void_p) if conditions else None
        result = self._library.seccomp_rule_add_array(
            self._filter, action, number, len(conditions), pointer
        )
        if result < 0 and -result != errno.EDOM:
            raise OSError(-result, f"seccomp, {call}: {os.strerror(-result)}")

    def prepare(self, threads_only: bool, *, truncates: bool) -> None:
        """threads_only: no new process either. truncates: it opens a file of its own so."""
        for call in self.CALLS:
            self.deny(call)
        for call in ("socket", "socketpair"):
            self.deny(call, errno.EAFNOSUPPORT, (0, self.NOT_EQUAL, 1, 0))  # AF_UNIX alone
        self.deny("clone3", errno.ENOSYS)  # its flags are in memory; the C library takes clone
        for bit in range(32):
            if (_CLONE_NEW | _CLONE_NEWTIME) >> bit & 1 and 1 << bit != _CLONE_NEWTIME:
                self.deny("clone", errno.EPERM, (0, self.MASKED_EQUAL, 1 << bit, 1 << bit))
        self.deny("ioctl", errno.EPERM, (1, self.MASKED_EQUAL, 0xFFFFFFFF, 0x5412))  # TIOCSTI
        if not truncates:
            self._deny_truncating()
        self.deny("truncate")
        self.deny("fallocate", errno.EPERM, (1, self.MASKED_EQUAL, self.COLLAPSE, self.COLLAPSE))
        if threads_only:
            self.deny("ftruncate")
            self.deny("clone", errno.EPERM, (0, self.MASKED_EQUAL, _CLONE_THREAD, 0))
            self.deny("fork")
            self.deny("vfork")

    def _deny_truncating(self) -> None:
        """By opening. Others have volumes mapped, and would be ended; Landlock knows of it since
        Linux 6.2."""
        self.deny("creat")
        self.deny("openat2", errno.ENOSYS)  # its flags are in memory; the C library takes openat
        for call, flags in (("open", 1), ("openat", 2)):
            truncates = (flags, self.MASKED_EQUAL, self.TRUNCATE, self.TRUNCATE)
            self.deny(call, errno.EPERM, truncates)

    def load(self) -> None:
        result = self._library.seccomp_load(self._filter)
        if result < 0:
            raise OSError(-result, f"seccomp: {os.strerror(-result)}")


class Landlock:
    """Write nothing but these files, and reach no abstract socket and no process outside. A kernel
    without Landlock, or with an older one, does less."""

    CREATE, ADD, RESTRICT = 444, 445, 446
    WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
    CHANGES = WRITE_FILE | 0x1FF0
    """And remove and make anything."""
    READ = 1 << 2 | 1 << 3
    """Files and folders."""
    EXECUTE = 1

    def __init__(
        self, writable: list[str], volumes: list[str], readable: list[str] | None = None
    ) -> None:
        """readable: read nothing either but what is at and below these, and of these folders'
        files; None: everything. With it, what is in a folder of `writable` is changed at will."""
        version = landlock_version()
        if version == 0:
            self._rules = -1
            return
        handled = self.CHANGES | (1 << 13 if version >= 2 else 0)
        handled |= self.TRUNCATE if version >= 3 else 0
        if readable is not None:
            handled |= self.READ | self.EXECUTE
        scoped = 3 if version >= 6 else 0
        network = 3 if version >= 4 and readable is not None else 0  # no TCP
        fields = [handled, network, scoped][: 3 if version >= 6 else 2 if network else 1]
        attributes = (ctypes.c_uint64 * len(fields))(*fields)
        size = ctypes.sizeof(attributes)
        self._rules = _syscall(self.CREATE, ctypes.byref(attributes), size, 0)
        for path in writable if readable is None else ():
            self._allow(path, self.WRITE_FILE | (handled & self.TRUNCATE))
        for path in writable if readable is not None else ():
            self._allow(path, handled & ~self.EXECUTE)
        for path in volumes:
            self._allow(path, self.WRITE_FILE)
        for path in readable or ():
            self._allow(path, self.READ)

    @property
    def in_force(self) -> bool:
        """Whether this kernel has it."""
        return self._rules >= 0

    def _allow(self, path: str, access: int) -> None:
        try:
            file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        rule = access.to_bytes(8, sys.byteorder) + file.to_bytes(4, sys.byteorder)
        _syscall(self.ADD, self._rules, 1, ctypes.c_char_p(rule), 0)
        os.close(file)

    def load(self) -> None:
        if self._rules >= 0:
            _syscall(self.RESTRICT, self._rules, 0)
            os.close(self._rules)


def _join(order: dict[str, Any]) -> None:
    for path in order["tasks"]:
        with open(path, "w") as file:  # noqa: PTH123
            file.write("0")
    if os.geteuid() == 0:
        os.setgroups(order["groups"])
    _call("setns", order["room"], _JOIN)
    os.chdir("/")


def _mount_fuse(folder: str, uid: int, gid: int) -> None:
    """FUSE_FD is the session's end. The device is opened here, as it goes by who opens it."""
    session = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={session},rootmode=40000,user_id={uid},group_id={gid}"
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV)
    _call("mount", b"nbdfuse", os.fsencode(folder), b"fuse.nbdfuse", flags, options.encode())
    os.dup2(session, FUSE_FD, inheritable=True)
    if session != FUSE_FD:
        os.close(session)


def _take_listener(listener: int) -> dict[str, str]:
    os.dup2(listener, LISTEN_FD, inheritable=True)
    if listener != LISTEN_FD:
        os.close(listener)
    return {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}


def landlock_version() -> int:
    """The version that this kernel has; 0 if it has none."""
    try:
        return _syscall(Landlock.CREATE, 0, 0, 1)
    except OSError:
        return 0


def keep_capabilities(kept: int) -> None:
    """Give up all capabilities of this process but those of the mask, for good."""
    for capability in range(_CAPABILITIES):
        if kept >> capability & 1:
            continue
        try:
            _call("prctl", _PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
        except OSError:  # the kernel has no more of them, or this user has none
            break
    _call("prctl", _PR_CAP_AMBIENT, ctypes.c_ulong(4), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    held = (ctypes.c_uint32 * 6)()
    _call("capget", ctypes.byref(header), ctypes.byref(held))
    left = held[0] & held[1] & kept
    _call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)(left, left)))


def _drop_rights(uid: int, gid: int) -> None:
    for capability in range(_CAPABILITIES):
        try:
            _call("prctl", _PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
        except OSError as error:
            if error.errno == errno.EINVAL:  # the kernel has no more of them
                break
            raise
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    _call("prctl", _PR_CAP_AMBIENT, ctypes.c_ulong(4), 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
    _call("prctl", _PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0)


def _become(order: dict[str, Any], argv: list[str]) -> None:
    """In the child. Returns only by an exception."""
    os.setsid()
    environment = dict(ENVIRONMENT)
    uid, gid = order["uid"], order["gid"]
    if order["fuse"] is not None:
        _mount_fuse(order["fuse"], uid, gid)
    if order["listener"] is not None:
        environment |= _take_listener(order["listener"])
    for name, wanted in order["limits"].items():
        _, hard = resource.getrlimit(getattr(resource, name))
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(getattr(resource, name), (value, value))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    seccomp, landlock = Seccomp(), Landlock(order["writable"], order["volumes"])
    seccomp.prepare(order["threads_only"], truncates=order["fuse"] is not None)  # its ready file
    _drop_rights(uid, gid)
    landlock.load()
    seccomp.load()
    os.execvpe(argv[0], argv, environment)


def main(argv: list[str]) -> int:
    """Start argv[2:] in a cell; whoever called gets a child, and this process its end."""
    order = json.loads(argv[0])
    for descriptor in (order["room"], order["report"]):
        os.set_inheritable(descriptor, False)
    try:
        ctypes.CDLL("libseccomp.so.2")  # while this process can see it
        clone = _CLONE_CALL[os.uname().machine]
        _join(order)
        child = _syscall(clone, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    except (OSError, KeyError) as error:
        print(f"cannot enter the cell of {argv[2]}: {error}", file=sys.stderr)
        return SETUP_FAILED
    if child:
        os.write(order["report"], f"{child}\n".encode())
        return 0
    status = SETUP_FAILED
    try:
        _become(order, argv[2:])
    except FileNotFoundError as error:
        print(f"cannot run {argv[2]}: {error}", file=sys.stderr)
        status = NOT_FOUND
    except BaseException as error:
        print(f"cannot confine {argv[2]}: {error!r}", file=sys.stderr)
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
