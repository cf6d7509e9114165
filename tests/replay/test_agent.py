# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The guest agent as a process of the host: real frames, a real service."""

import ast
import hashlib
import os
import random
import resource
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from replay import (
    AgentChannel,
    AgentFailed,
    AgentTimeout,
    AlreadyExecuted,
    Operation,
    OperationConflict,
    OperationGap,
    ServiceNotReady,
    ServiceTimeout,
    agent_program,
)
from replay.frames import AgentFrame, FrameReader, FrameStatus, FrameType
from satchel.errors import UsageError
from tests.conftest import requires
from tests.replay.agents import RunningAgent, body, http, running_agent
from tests.waiting import eventually


def raw_socket(agent: RunningAgent) -> socket.socket:
    agent.connect().close()
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(str(agent.socket))
    return connection


def ask(connection: socket.socket, data: bytes) -> AgentFrame:
    """The first frame that comes after `data` was sent."""
    reader = FrameReader()
    connection.sendall(data)
    while received := connection.recv(1 << 16):
        for frame in reader.feed(received):
            return frame
    raise AssertionError("the agent hung up")


def test_reply_golden_bytes(short_path: Path) -> None:
    with running_agent(short_path, "sleep 60") as agent, raw_socket(agent) as connection:
        request = "c0 53415446 01 04 0000 05000000 10270000 " + "00" * 24 + "07000000 90fbe080"
        connection.sendall(bytes.fromhex(request) + b"echo\0hi\xc0")
        expected = "c0 53415446 01 84 0000 05000000 00000000 " + "00" * 24 + "03000000 95bf675c"
        data = b""
        while data.count(b"\xc0") < 2:
            data += connection.recv(1000)
        assert data.hex() == (bytes.fromhex(expected) + b"hi\n\xc0").hex()


def test_executes_in_order_with_time_and_seed(channel: AgentChannel) -> None:
    assert body(channel.execute(http(1, "POST", "/add", b"a")).payload) == b"1 7"
    assert body(channel.execute(http(2, "POST", "/add", b"b")).payload) == b"2 14"
    assert channel.last == 2


def test_the_last_operation_is_answered_again_but_not_executed_again(
    channel: AgentChannel,
) -> None:
    first = channel.execute(http(1, "POST", "/add"))
    assert channel.execute(http(1, "POST", "/add")) == first
    assert body(channel.execute(http(2, "GET", "/additions")).payload) == b"1"


def test_an_older_operation_is_not_executed_again(channel: AgentChannel) -> None:
    for number in (1, 2, 3):
        channel.execute(http(number, "POST", "/add"))
    with pytest.raises(AlreadyExecuted) as caught:
        channel.execute(http(1, "POST", "/add"))
    assert (caught.value.number, caught.value.last) == (1, 3)
    assert body(channel.execute(http(4, "GET", "/additions")).payload) == b"3"


def test_a_gap_is_refused(channel: AgentChannel) -> None:
    channel.execute(http(1, "POST", "/add"))
    with pytest.raises(OperationGap) as caught:
        channel.execute(http(3, "POST", "/add"))
    assert (caught.value.number, caught.value.last) == (3, 1)
    assert body(channel.execute(http(2, "GET", "/additions")).payload) == b"1"


def test_another_operation_under_an_executed_number_is_refused(channel: AgentChannel) -> None:
    channel.execute(http(1, "POST", "/add", b"mine"))
    with pytest.raises(OperationConflict):
        channel.execute(http(1, "POST", "/add", b"yours"))
    assert channel.last == 1


def test_two_hundred_operations(agent: RunningAgent, channel: AgentChannel) -> None:
    operations = [http(number, "POST", "/add", b"%d" % number) for number in range(1, 201)]
    responses = [channel.execute(operation).payload for operation in operations]
    assert channel.last == 200
    assert [body(r) for r in responses] == [b"%d %d" % (n, 7 * n) for n in range(1, 201)]


def test_big_payloads_both_ways(channel: AgentChannel) -> None:
    sent = random.Random(4).randbytes(20 << 20)
    assert body(channel.execute(http(1, "POST", "/echo", sent)).payload) == sent
    special = b"\xc0\xdb" * (2 << 20)
    assert body(channel.execute(http(2, "POST", "/echo", special)).payload) == special


def test_a_response_beyond_the_limit_is_dropped(channel: AgentChannel) -> None:
    assert channel.execute(http(1, "GET", "/endless")).payload == b""
    assert body(channel.execute(http(2, "POST", "/echo", b"on")).payload) == b"on"


def test_a_connection_broken_off_gives_an_empty_response_once(channel: AgentChannel) -> None:
    assert channel.execute(http(1, "GET", "/reset")).payload == b""
    assert channel.execute(http(1, "GET", "/reset")).payload == b""
    assert channel.last == 1


def test_the_service_dies_under_an_operation_and_comes_back(channel: AgentChannel) -> None:
    channel.execute(http(1, "POST", "/add"))
    channel.execute(http(2, "POST", "/die"))
    response = channel.execute(http(3, "GET", "/additions"))
    assert body(response.payload) == b"0"
    status = channel.hello()
    assert (status.ready, status.restarts, status.exit) == (True, 1, "exit 3")


def test_a_service_that_is_not_there_executes_nothing(short_path: Path) -> None:
    with running_agent(short_path, "sleep 60") as agent, agent.connect() as channel:
        with pytest.raises(ServiceNotReady):
            channel.execute(http(1, "GET", "/additions"), timeout=0.3)
        with pytest.raises(ServiceNotReady):
            channel.wait_ready(0.3)
        assert channel.last == 0


def test_a_service_that_keeps_dying_is_restarted_ever_later(short_path: Path) -> None:
    began = time.monotonic()
    with running_agent(short_path, "exit 7") as agent, agent.connect() as channel:
        with pytest.raises(ServiceNotReady, match=r"died 3 times before.*ended with exit 7"):
            channel.wait_ready(300)
        assert eventually(lambda: channel.hello().restarts >= 4)
        status = channel.hello()
        pauses = 0.1 * (2**status.restarts - 1)
        assert time.monotonic() - began > pauses
        assert (status.ready, status.exit) == (False, "exit 7")


def test_what_a_dead_service_started_is_ended(short_path: Path) -> None:
    command = f"sleep 1000 & echo $! >> {short_path}/orphan; kill -9 $$"
    with running_agent(short_path, command) as agent, agent.connect() as channel:
        assert eventually(lambda: channel.hello().restarts)
        orphan = int((short_path / "orphan").read_text().split()[0])
        assert eventually(lambda: is_gone(orphan))


def is_gone(pid: int) -> bool:
    """Whether it has ended, be it that nobody has waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


def test_a_guest_without_a_service_says_so(short_path: Path) -> None:
    with running_agent(short_path, surprise="x") as agent, agent.connect() as channel:
        assert "line 3 is not understood: surprise=x" in channel.hello().problem
        with pytest.raises(AgentFailed):
            channel.wait_ready(5.0)
        assert channel.run(["echo", "still here"]) == (0, b"still here\n")


def test_the_service_gets_its_environment_and_folder(short_path: Path) -> None:
    command = f'echo "$COLOUR $PWD $HOME" > {short_path}/seen; sleep 60'
    config = {"environment": "COLOUR=a=b", "workdir": "/usr"}
    with running_agent(short_path, command, **config) as agent, agent.connect() as channel:
        channel.hello()
        seen = short_path / "seen"
        assert eventually(lambda: seen.exists() and seen.read_text())
        assert seen.read_text() == "a=b /usr /\n"


@requires("root")
@pytest.mark.parametrize(("user", "expected"), [("65534", "65534 65534"), ("1:2", "1 2")])
def test_the_service_runs_as_its_user(short_path: Path, user: str, expected: str) -> None:
    short_path.chmod(0o777)
    command = f'echo "$(id -u) $(id -G)" > {short_path}/seen; sleep 60'
    with running_agent(short_path, command, user=user) as agent, agent.connect() as channel:
        channel.hello()
        seen = short_path / "seen"
        assert eventually(lambda: seen.exists() and seen.read_text())
        assert seen.read_text() == expected + "\n"


def test_an_operation_that_takes_too_long_counts_as_executed(channel: AgentChannel) -> None:
    with pytest.raises(ServiceTimeout):
        channel.execute(http(1, "GET", "/slow?n=100"), timeout=0.3)
    with pytest.raises(ServiceTimeout):
        channel.execute(http(1, "GET", "/slow?n=100"), timeout=60)
    assert channel.last == 1


def test_a_new_host_takes_over_an_operation_under_way(
    agent: RunningAgent, short_path: Path
) -> None:
    slow = http(1, "GET", f"/until?path={short_path}/go")
    with agent.connect() as channel:
        channel.wait_ready(60)
        worker = threading.Thread(target=_try_execute, args=(channel, slow))
        worker.start()
        assert eventually(lambda: not channel_is_idle(worker, agent))
    worker.join()
    with agent.connect() as channel:
        status = channel.hello()
        assert (status.last, status.executing) == (0, 1)
        (short_path / "go").touch()
        assert body(channel.execute(slow).payload) == b"there"
        assert channel.last == 1


SAYS_TWICE = """
import pathlib, socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"one")
            while not pathlib.Path(sys.argv[2]).exists():
                time.sleep(0.01)
            connection.sendall(b" two")
"""


def test_what_the_service_says_comes_in_parts_to_who_wants_them(short_path: Path) -> None:
    program, heard = short_path / "says.py", short_path / "heard"
    program.write_text(SAYS_TWICE)
    parts: list[bytes] = []

    def take(part: bytes) -> None:
        parts.append(part)
        heard.touch()  # the rest is said only when the beginning was heard

    command = f"exec {sys.executable} {program} $PORT {heard}"
    with running_agent(short_path, command) as agent, agent.connect() as channel:
        assert channel.execute(http(1, "GET", "/"), 30, take).payload == b"one two"
        assert b"one two".startswith(b"".join(parts))
        assert parts[0] == b"one"
        del parts[:]
        assert channel.execute(http(1, "GET", "/"), 30, take).payload == b"one two"
        assert channel.execute(http(2, "GET", "/"), 30).payload == b"one two"
        assert not parts


def test_a_new_host_gets_the_parts_from_the_beginning(short_path: Path) -> None:
    program, heard = short_path / "says.py", short_path / "heard"
    program.write_text(SAYS_TWICE)
    command, begun = f"exec {sys.executable} {program} $PORT {heard}", threading.Event()
    with running_agent(short_path, command) as agent:
        with agent.connect() as channel:
            channel.wait_ready(20)
            worker = threading.Thread(
                target=_try_execute,
                args=(channel, http(1, "GET", "/"), lambda part: begun.set()),
            )
            worker.start()
            assert begun.wait(20)
        worker.join()
        parts: list[bytes] = []

        def take(part: bytes) -> None:
            parts.append(part)
            heard.touch()

        with agent.connect() as channel:
            assert channel.execute(http(1, "GET", "/"), 30, take).payload == b"one two"
        assert parts[0] == b"one"


def channel_is_idle(worker: threading.Thread, agent: RunningAgent) -> bool:
    """Whether the service has no connection yet: the operation has not reached it."""
    wanted = f":{agent.port:04X} "
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    established = [line for line in lines if wanted in line and line.split()[3] == "01"]
    return worker.is_alive() and not established


def _try_execute(
    channel: AgentChannel,
    operation: Operation,
    on_part: Callable[[bytes], None] | None = None,
) -> None:
    with pytest.raises(Exception, match="lost the agent"):
        channel.execute(operation, on_part=on_part)


@pytest.mark.parametrize("cut", [1, 20, 60, 1000])
def test_a_host_that_died_in_the_middle_of_a_frame(agent: RunningAgent, cut: int) -> None:
    frame = AgentFrame(FrameType.EXECUTE, id=1, number=1, payload=bytes(1 << 16)).encode()
    with raw_socket(agent) as connection:
        connection.sendall(frame[:cut])
        assert ask(connection, AgentFrame(FrameType.HELLO, id=2).encode()).id == 2


def test_garbage_is_skipped(agent: RunningAgent) -> None:
    noise = random.Random(5)
    with raw_socket(agent) as connection:
        for number in range(20):
            garbage = noise.randbytes(noise.randrange(1 << 14))
            reply = ask(connection, garbage + AgentFrame(FrameType.HELLO, id=number).encode())
            assert (reply.type, reply.id) == (0x81, number)


def test_a_frame_inside_a_payload_is_not_obeyed(agent: RunningAgent, short_path: Path) -> None:
    trap = AgentFrame(
        FrameType.RUN, 9, timeout_ms=9000, payload=b"touch\0%b/trap" % bytes(short_path)
    )
    outer = AgentFrame(FrameType.EXECUTE, 1, timeout_ms=1, number=5, payload=trap.encode())
    with raw_socket(agent) as connection:
        half = outer.encode()[: -20 - len(trap.payload)]
        assert ask(connection, outer.encode() + half).id == 1
        assert ask(connection, AgentFrame(FrameType.HELLO, id=2).encode()).id == 2
        assert ask(
            connection, AgentFrame(FrameType.RUN, 3, timeout_ms=9000, payload=b"true").encode()
        )
    assert not (short_path / "trap").exists()


def test_an_unknown_request_is_refused(agent: RunningAgent) -> None:
    with raw_socket(agent) as connection:
        reply = ask(connection, AgentFrame(77, id=3).encode())
        assert (reply.type, reply.status) == (77 | 0x80, FrameStatus.BAD_REQUEST)


def test_it_survives_being_frozen(agent: RunningAgent, channel: AgentChannel) -> None:
    channel.execute(http(1, "POST", "/add"))
    os.kill(agent.process.pid, signal.SIGSTOP)
    with pytest.raises(AgentTimeout):
        channel.hello(0.5)
    os.kill(agent.process.pid, signal.SIGCONT)
    assert body(channel.execute(http(2, "GET", "/additions")).payload) == b"1"


def test_run_gives_exit_status_and_output(channel: AgentChannel) -> None:
    assert channel.run(["sh", "-c", "echo out; echo err >&2; exit 5"]) == (5, b"out\nerr\n")
    assert channel.run(["sh", "-c", "kill -9 $$"]) == (137, b"")
    status, output = channel.run(["no-such-program"])
    assert (status, output) == (127, b"no-such-program: No such file or directory\n")
    with pytest.raises(UsageError):
        channel.run([])


def test_run_ends_what_takes_too_long(channel: AgentChannel) -> None:
    begin = time.monotonic()
    with pytest.raises(AgentTimeout):
        channel.run(["sh", "-c", "sleep 500 & sleep 500"], timeout=0.3)
    assert time.monotonic() - begin < 100
    assert channel.run(["echo", "next"]) == (0, b"next\n")


def test_run_bounds_output(channel: AgentChannel) -> None:
    status, output = channel.run(["head", "-c", "9000000", "/dev/zero"])
    assert (status, len(output)) == (0, 4 << 20)


def test_sync(channel: AgentChannel) -> None:
    channel.execute(http(1, "POST", "/add"))
    channel.sync()
    assert body(channel.execute(http(2, "GET", "/additions")).payload) == b"1"


def entry(kind: bytes, path: Path, content: bytes = b"", size: int | None = None) -> bytes:
    length = len(content) if size is None else size
    return kind + bytes(path) + b"\0" + length.to_bytes(8, "little") + content


def test_digest_is_over_sorted_paths_and_contents(channel: AgentChannel, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "file").write_bytes(b"x" * 100_000)
    (folder / "a").write_bytes(b"")
    (folder / "c").symlink_to("b/file")
    absent = tmp_path / "absent"
    expected = hashlib.sha256(
        entry(b"a", absent)
        + entry(b"d", folder)
        + entry(b"f", folder / "a")
        + entry(b"d", folder / "b")
        + entry(b"f", folder / "b" / "file", b"x" * 100_000)
        + entry(b"l", folder / "c", b"b/file")
    ).hexdigest()
    assert channel.digest([str(folder), str(absent)]) == expected
    (folder / "b" / "file").write_bytes(b"x" * 99_999 + b"y")
    assert channel.digest([str(folder), str(absent)]) != expected


def test_it_refuses_to_be_anything_but_pid_1() -> None:
    done = subprocess.run([agent_program()], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--no-init" in done.stderr


REPORT = """
import os, resource, signal, sys
name = os.environ["discovery.type"]
value = os.environ["PEM"]
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
with open("/dev/stdout", "a") as out:
    print("said by", os.getuid(), file=out)
with open(sys.argv[1], "w") as report:
    report.write(repr([name, value, limit, sys.argv[2:], os.getppid() != 1]))
signal.pause()
"""


@requires("root")
def test_a_containers_command_has_its_words_and_every_variable(short_path: Path) -> None:
    """No shell is between, which would drop `discovery.type`. The user may open /dev/stdout."""
    report = short_path / "report"
    report.touch()
    report.chmod(0o666)
    short_path.chmod(0o755)
    words = [sys.executable, "-c", REPORT, str(report), "it's", "", "$HOME", "a\nb", "a\\b"]
    command = f"exec {shlex.join(words)}".replace("\\", "\\\\").replace("\n", "\\n")
    description = short_path / "service"
    description.write_text(
        f"\\command={command}\nport=1\nuser=65534:65534\nenvironment=discovery.type=x\n"
        "\\environment=PEM=-----BEGIN\\nkey\\\\n\\n\n"
    )
    console = short_path / "console"
    argv: list[str | Path] = ["prlimit", "--nofile=1024:", agent_program(), "--no-init"]
    argv += ["--listen", short_path / "agent", "--config", description]
    with (
        console.open("wb") as output,
        subprocess.Popen(argv, stdout=output, stderr=output) as agent,
    ):
        try:
            eventually(report.read_text, 20)
        finally:
            agent.terminate()
    files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65536)
    said = ["x", "-----BEGIN\nkey\\n\n", files, ["it's", "", "$HOME", "a\nb", "a\\b"], True]
    assert report.read_text(), console.read_text()
    assert ast.literal_eval(report.read_text()) == said
    assert "said by 65534" in console.read_text()


def test_no_operation_has_number_zero(agent: RunningAgent) -> None:
    frame = AgentFrame(FrameType.EXECUTE, id=1, number=0, timeout_ms=100)
    with raw_socket(agent) as connection:
        assert ask(connection, frame.encode()).status == FrameStatus.BAD_REQUEST


def test_it_is_a_static_program() -> None:
    head = agent_program().read_bytes()
    assert b"ld-linux" not in head[: 1 << 12]
    assert len(head) < 3 << 20


def test_the_state_follows_from_the_operations_alone(short_path: Path) -> None:
    digests, responses = [], []
    for name in ("one", "two"):
        (short_path / name).mkdir()
        with running_agent(short_path / name) as agent, agent.connect() as channel:
            channel.wait_ready(20)
            raw = [channel.execute(http(n, "POST", "/add", b"%d" % n)) for n in range(1, 20)]
            responses.append([body(r.payload) for r in raw])
            status, output = channel.run(["sha256sum", str(short_path / name / "state")])
            assert status == 0
            digests.append(output.split()[0])
    assert digests[0] == digests[1]
    assert responses[0] == responses[1]


def test_a_read_is_executed_each_time_and_counts_for_nothing(channel: AgentChannel) -> None:
    channel.execute(http(1, "POST", "/add"))
    for _ in range(2):
        assert body(channel.read(http(2, "GET", "/additions")).payload) == b"1"
    assert channel.last == 1
    last = channel.execute(http(2, "POST", "/add"))
    assert body(channel.read(http(2, "GET", "/additions")).payload) == b"2"
    assert channel.execute(http(2, "POST", "/add")) == last
    assert body(channel.read(http(3, "GET", "/additions")).payload) == b"2"


def test_a_read_waits_for_the_operations_before_it(channel: AgentChannel) -> None:
    channel.execute(http(1, "POST", "/add"))
    with pytest.raises(OperationGap, match="operation 3 follows 1"):
        channel.read(http(3, "GET", "/additions"))
    channel.execute(http(2, "POST", "/add"))
    assert body(channel.read(http(3, "GET", "/additions")).payload) == b"2"


def test_a_service_sees_the_same_environment_everywhere(short_path: Path) -> None:
    with running_agent(short_path, "env > seen; sleep 60", workdir=str(short_path)):
        seen = short_path / "seen"
        assert eventually(lambda: seen.exists() and "PWD=" in seen.read_text())
        pairs = dict(line.split("=", 1) for line in seen.read_text().splitlines())
    assert pairs["TZ"] == "UTC"
    assert pairs["LC_ALL"] == pairs["LANG"] == "C.UTF-8"
    assert pairs["PYTHONHASHSEED"] == pairs["PERL_HASH_SEED"] == "0"
    assert pairs["OMP_NUM_THREADS"] == pairs["OPENBLAS_NUM_THREADS"] == "1"


def test_a_recipe_may_have_its_own_environment(short_path: Path) -> None:
    config = {"workdir": str(short_path), "environment": "TZ=Europe/Berlin"}
    with running_agent(short_path, "env > seen; sleep 60", **config):
        seen = short_path / "seen"
        assert eventually(lambda: seen.exists() and "PWD=" in seen.read_text())
        assert "TZ=Europe/Berlin" in seen.read_text().splitlines()


def test_a_guest_without_shares_has_no_host_for_them(channel: AgentChannel) -> None:
    with pytest.raises(AgentFailed, match="no shares"):
        channel.attach_shares(bytes(16))
