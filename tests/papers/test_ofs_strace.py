# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What strace writes is read, and followed from descriptors to files."""

import subprocess
import sys
from pathlib import Path

import pytest

from papers.ofs.follow import Follower
from papers.ofs.record import record
from papers.ofs.strace import Call, Descriptor, PendingCall, calls, unescaped
from papers.ofs.trace import ABSENT, File, Kind
from tests.needs import requires

REAL = r"""
21244 1795328019.435679 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD|CLONE_SYSVSEM, stack_size=0x7fff80, tls=0x7fb5659b06c0} => {parent_tid=[21329]}, 88) = 21329 <0.000054>
21329 1795328019.436554 mmap(NULL, 16384, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7fb565b7d000 <0.000036>
21329 1795328019.436718 openat(AT_FDCWD</srv/s>, "a", O_RDWR|O_CREAT|O_APPEND|O_CLOEXEC, 0644) = 5</srv/s/a> <0.000088>
21329 1795328019.436886 write(5</srv/s/a>, ""..., 5000) = 5000 <0.000053>
21329 1795328019.436995 write(5</srv/s/a>, ""..., 10) = 10 <0.000470>
21329 1795328019.437543 read(3<pipe:[77760]>,  <unfinished ...>
21244 1795328019.537283 openat(AT_FDCWD</srv/s>, "a", O_RDONLY|O_CLOEXEC) = 6</srv/s/a> <0.000148>
21244 1795328019.537657 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7fb5667f5e50) = 21340 <0.000990>
21340 1795328019.539399 read(6</srv/s/a>, ""..., 100) = 100 <0.000048>
21340 1795328019.539499 +++ exited with 0 +++
21244 1795328019.540444 read(6</srv/s/a>, ""..., 10) = 10 <0.000089>
21244 1795328019.540734 fcntl(6</srv/s/a>, F_DUPFD_CLOEXEC, 0) = 7</srv/s/a> <0.000376>
21244 1795328019.541185 lseek(7</srv/s/a>, 4096, SEEK_SET) = 4096 <0.000034>
21244 1795328019.541267 read(6</srv/s/a>, ""..., 4) = 4 <0.000037>
21244 1795328019.541376 pread64(6</srv/s/a>, ""..., 20, 100) = 20 <0.000975>
21244 1795328019.542618 mmap(NULL, 5010, PROT_READ, MAP_SHARED, 6</srv/s/a>, 0) = 0x7fb5667f8000 <0.000051>
21244 1795328019.542739 rename("a", "b") = 0 <0.000099>
21244 1795328019.542902 truncate("b", 4097) = 0 <0.000055>
21244 1795328019.543021 openat(AT_FDCWD</srv/s>, "a", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0777) = 9</srv/s/a> <0.000065>
21244 1795328019.543175 pwrite64(9</srv/s/a>, ""..., 2, 8190) = 2 <0.000081>
21244 1795328019.543310 sendfile(9</srv/s/a>, 6</srv/s/b>, [0] => [50], 50) = 50 <0.000061>
21244 1795328019.543484 writev(9</srv/s/a>, [...], 2) = 4 <0.000037>
21244 1795328019.543584 access("/satchel-bench/procedure/away", F_OK) = -1 ENOENT (No such file or directory) <0.000041>
21244 1795328019.543685 write(4<pipe:[77760]>, ""..., 1) = 1 <0.000039>
21329 1795328019.543753 <... read resumed>""..., 1) = 1 <0.106187>
21329 1795328019.543848 close(5</srv/s/b>) = 0 <0.000036>
21244 1795328019.544090 unlink("b")     = 0 <0.000061>
21244 1795328019.544196 read(6</srv/s/b>(deleted), "", 5) = 0 <0.000035>
21244 1795328019.544296 read(6</srv/s/b>(deleted), ""..., 5) = 1 <0.000035>
""".strip().splitlines()  # noqa: E501
"""Of a real program; only the folder's name and two numbers were changed."""


def test_a_call_that_others_interrupt_is_one_call() -> None:
    halves = [each for each in calls(REAL) if each.task == 21329 and each.name == "read"]
    assert halves == [
        PendingCall(21329, 1795328019.437543, "read"),
        Call(
            21329,
            1795328019.437543,
            0.106187,
            "read",
            ("3<pipe:[77760]>", '""...', "1"),
            1,
        ),
    ]


def test_arguments_are_apart_whatever_is_in_them() -> None:
    line = '7 1.5 openat(3</a (b), "c>, {d">, "x\\"), y\\302\\265", O_RDONLY) = 4</a/\\351> <0.1>'
    (call,) = calls([line.replace('"c>', "[c")])
    assert isinstance(call, Call)
    assert call.arguments[1:] == ('"x\\"), y\\302\\265"', "O_RDONLY")
    assert unescaped(call.arguments[1]) == '"x"), yµ"'
    assert Descriptor.of("AT_FDCWD</srv/s>") == Descriptor(None, "/srv/s")
    assert Descriptor.of("6</srv/s/b>(deleted)") == Descriptor(6, "/srv/s/b")


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        "7 1.5 read(3, ",
        "7 1.5 <... read resumed>, 1) = 1",
        "7 1.5 close(3)",
    ],
)
def test_lines_that_strace_does_not_write_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"call|line"):
        list(calls([line]))


def test_offsets_are_followed_through_forks_duplicates_and_new_names() -> None:
    trace = Follower("/srv/s", {}, "/srv/s").follow(REAL, "try")
    assert trace.files == (File("a", ABSENT), File("a", ABSENT))
    assert trace.procedures == ("", "away")
    assert [(a.task, a.kind, a.file, a.offset, a.length) for a in trace.accesses] == [
        (0, Kind.WRITE, 0, 0, 5000),
        (0, Kind.WRITE, 0, 5000, 10),
        (1, Kind.READ, 0, 0, 100),
        (2, Kind.READ, 0, 100, 10),
        (2, Kind.READ, 0, 4096, 4),
        (2, Kind.READ, 0, 100, 20),
        (2, Kind.READ, 0, 0, 5010),
        (2, Kind.RESIZE, 0, 4097, 0),
        (2, Kind.WRITE, 1, 8190, 2),
        (2, Kind.READ, 0, 0, 50),
        (2, Kind.WRITE, 1, 0, 50),
        (2, Kind.WRITE, 1, 50, 4),
        (2, Kind.READ, 0, 4100, 1),
    ]
    assert [a.procedure for a in trace.accesses] == [0] * 12 + [1]
    assert trace.accesses[0].at == 1207
    assert trace.accesses[1].took == 470
    assert trace.accesses[1].blocks == range(1, 2)
    assert trace.accesses[6].blocks == range(2)


def test_a_role_stays_with_what_is_executed() -> None:
    lines = [
        '1 1.0 execve("/bin/sh", [...], 0x7ff /* 1 var */) = 0 <0.1>',
        '1 1.1 faccessat2(AT_FDCWD</s>, "/satchel-bench/role/far", R_OK, AT_EACCESS) = -1 ENOENT'
        " (No such file or directory) <0.1>",
        '1 1.2 execve("/usr/bin/cc", [...], 0x7ff /* 1 var */) = 0 <0.1>',
        '1 1.3 openat(AT_FDCWD</s>, "x", O_RDONLY) = 3</s/x> <0.1>',
        '1 1.4 read(3</s/x>, ""..., 10) = 10 <0.1>',
        "1 1.5 +++ exited with 0 +++",
        '2 1.6 execve("/s/x", [...], 0x7ff /* 1 var */) = 0 <0.1>',
    ]
    trace = Follower("/s", {"/s/x": 10}, "/s").follow(lines, "try")
    assert trace.roles == ("far", "x")
    assert [(a.task, a.offset, a.length) for a in trace.accesses] == [(0, 0, 10), (1, 0, 10)]


PROGRAM = """\
import os, subprocess, sys, threading
old = os.open("old", os.O_RDONLY)
os.lseek(old, 4000, os.SEEK_SET)
os.read(old, 200)
subprocess.run(["dd", "if=old", "of=new", "bs=4096", "skip=1", "status=none"], check=True)
thread = threading.Thread(target=lambda: os.rename("new", "newer"))
thread.start(); thread.join()
with open("newer", "ab", buffering=0) as newer:
    newer.write(b"x" * 5)
"""


@requires("strace")
def test_a_real_program_is_recorded(tmp_path: Path) -> None:
    if subprocess.run(["strace", "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs ptrace, which this container forbids")
    (tmp_path / "old").write_bytes(bytes(10_000))
    trace = record([sys.executable, "-c", PROGRAM], tmp_path, "try")
    assert trace.files == (File("old", 10_000), File("new", ABSENT))
    found = [(trace.roles[a.task], a.kind, a.file, a.offset, a.length) for a in trace.accesses]
    assert found[0][1:] == (Kind.READ, 0, 4000, 200)
    assert ("dd", Kind.READ, 0, 4096, 4096) in found
    assert ("dd", Kind.WRITE, 1, 4096, 1808) in found
    assert found[-1][1:] == (Kind.WRITE, 1, 5904, 5)
