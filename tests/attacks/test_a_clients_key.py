# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Somebody with a client's key, and OpenSSH's programs, at a surrogate that its operator set up."""

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from satchel.errors import AccessError, UnavailableError
from satchel.readiness import readable
from surrogate.preflight import preflight
from testbed.sshd import Sshd
from tests.client.world import LAPTOP, HomePlace, SpotPlace
from tests.doors import door_of
from tests.needs import requires
from tests.waiting import eventually
from wire import HttpClient, Identity, Links, SshHost, SshLink, fingerprint
from wire.link.multiplex import HEADER, HELLO, MAGIC, VERSION, MuxKind

pytestmark = requires("ssh", "sshd", "ssh-keygen")

TOKEN = "00112233445566ff"

SILENCE_SECONDS = 3.0
"""After which a door has said all that it says to some frames."""
HELLO_BYTES = HELLO.pack(MAGIC, VERSION, VERSION)


class Attacker:
    """Has a key that the operator let in."""

    def __init__(self, spot: SpotPlace, sshd: Sshd, folder: Path, key: Identity) -> None:
        self.spot = spot
        self.sshd = sshd
        self.folder = folder
        self.host: SshHost = sshd.host("spot", key.path, folder / "known_hosts")

    def options(self, port: str = "-p") -> list[str]:
        known = f"UserKnownHostsFile={self.host.known_hosts}"
        words = ["-F", "none", "-i", str(self.host.identity), "-o", known]
        return [*words, "-o", "BatchMode=yes", port, str(self.host.port)]

    def ssh(self, *words: str, said: bytes = b"", seconds: float = 30) -> tuple[int, bytes, bytes]:
        argv = ["ssh", *self.options(), *words]
        done = subprocess.run(argv, input=said, capture_output=True, timeout=seconds, check=False)
        return done.returncode, done.stdout, done.stderr

    def forwarding(self, *words: str) -> "subprocess.Popen[bytes]":
        """ssh that only forwards, in the background."""
        argv = ["ssh", *self.options(), "-N", *words, self.host.destination]
        return subprocess.Popen(argv, stderr=subprocess.PIPE)

    def says(self, *frames: tuple[MuxKind, int, bytes]) -> list[tuple[int, int, bytes]]:
        """What the door answers to a hello and these frames."""
        sent = HELLO_BYTES + b"".join(HEADER.pack(k, n, len(p)) + p for k, n, p in frames)
        argv = ["ssh", *self.options(), "-T", self.host.destination, "door"]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(sent)
        process.stdin.flush()
        answer = b""
        while readable(
            [process.stdout], SILENCE_SECONDS if answer else 30.0
        ):  # at the end all are forgotten
            if not (more := os.read(process.stdout.fileno(), 1 << 16)):
                break
            answer += more
        answer += process.communicate(timeout=30)[0]
        assert answer.startswith(HELLO_BYTES)
        found, at = [], HELLO.size
        while at < len(answer):
            kind, number, length = HEADER.unpack_from(answer, at)
            at += HEADER.size
            found.append((kind, number, answer[at : at + length]))
            at += length
        return found


def attempts(names: Sequence[str]) -> list[tuple[MuxKind, int, bytes]]:
    """To open these, each in a stream of its own: whoever connects has the odd numbers."""
    return [(MuxKind.OPEN, 2 * place + 1, name.encode()) for place, name in enumerate(names)]


@pytest.fixture
def attacker(short_path: Path) -> Iterator[Attacker]:
    """The daemon goes on, and knows of nobody but those whose keys were let in."""
    key = Identity.create(short_path / "key")
    with ExitStack() as stack:
        spot = SpotPlace(short_path / "a", key)
        stack.callback(spot.close)
        door = door_of("satchel-surrogate", spot.socket.parent)
        place, keys = short_path / "d", [key.public]
        sshd = stack.enter_context(Sshd.start(place, authorized=keys, door=door))
        yield Attacker(spot, sshd, short_path, key)
        with HttpClient(spot.door(LAPTOP)) as client:
            assert client.get_json("/v1/status")["name"] == "a"


def test_a_paired_laptop_reads_and_writes_no_file_of_home(short_path: Path) -> None:
    key = Identity.create(short_path / "key")
    with ExitStack() as stack:
        home = HomePlace(short_path / "h", key)
        stack.callback(home.close)
        secret = short_path / "secret"
        secret.write_bytes(b"s" * 4096)
        victim = short_path / "authorized_keys"
        sshd = stack.enter_context(
            Sshd.start(
                short_path / "d",
                authorized=[key.public],
                door=door_of("satchel-home", home.socket.parent),
            )
        )
        links = stack.enter_context(Links(short_path / "l"))
        peer = sshd.peer("home", key.path, short_path / "known_hosts")
        api = links.open("home", peer).http
        assert api.get_json("/v1/services") == []
        share = {"name": "x", "path": str(short_path), "policy": "", "relaxation": 0.0, "log": ""}
        media = {"media": str(short_path), "services": [], "doubtful": "keep", "budget": 0}
        asked: dict[str, dict[str, object]] = {
            "/v1/import": {"file": str(secret), "name": "x"},
            "/v1/export": {"name": "x", "file": str(victim), "overwrite": True},
            "/v1/shares": share,
            "/v1/media/sync": media,
            "/v1/services": {"name": "x", "image": str(secret)},
            "/v1/services/notes/checkpoint": {"media": str(short_path), "doubtful": "refuse"},
            "/v1/forget": {"names": ["notes"], "policy": {}, "dry_run": False},
        }
        for path, body in asked.items():
            with pytest.raises(AccessError, match="not for paired clients"):
                api.post_json(path, body)
        with pytest.raises(AccessError, match="not for paired clients"):
            api.delete("/v1/services/notes")
    assert not victim.exists()


def test_takes_no_door_of_home_from_another_client(short_path: Path) -> None:
    """A thief opens all links that he gets. sshd starts the door with the key that it accepted."""
    (short_path / "run").mkdir()
    program = door_of("satchel-home", short_path / "run")
    with ExitStack() as stack:

        def is_open(client: str) -> bool:
            ours, theirs = socket.socketpair()
            stack.enter_context(ours).settimeout(30.0)
            argv = [*program, "--client", client]
            with theirs:
                end = theirs.fileno()
                door = subprocess.Popen(argv, stdin=end, stdout=end, stderr=subprocess.PIPE)
            stack.callback(door.communicate)
            stack.callback(ours.close)
            return ours.recv(4) == MAGIC

        stolen, honest = "SHA256:" + "s" * 43, "SHA256:" + "h" * 43
        got = sum(1 for _ in iter(lambda: is_open(stolen), False))
        assert got >= 8
        assert is_open(honest)


def test_gets_no_shell_no_command_and_no_terminal(attacker: Attacker) -> None:
    made = attacker.folder / "made"
    for words in (["id"], [f"touch {made}"], [], ["-tt"], ["sh", "-c", f"touch {made}"]):
        options = [word for word in words if word == "-tt"]
        rest = [word for word in words if word != "-tt"]
        _, out, _ = attacker.ssh(*options, attacker.host.destination, *rest)
        assert out in (HELLO_BYTES, b"")
    _, out, _ = attacker.ssh(attacker.host.destination, said=f"touch {made}\n".encode())
    assert b"uid=" not in out
    assert not made.exists()


def test_copies_no_file_there_and_none_back(attacker: Attacker) -> None:
    token = attacker.spot.host.settings.run / "operator.token"
    there = attacker.host.destination
    back, made = attacker.folder / "back", attacker.folder / "made"
    mine = attacker.folder / "mine"
    mine.write_text("mine")
    for protocol in ("-O", "-s"):
        for pair in ((f"{there}:{token}", back), (mine, f"{there}:{made}")):
            argv = ["scp", protocol, *attacker.options("-P"), *map(str, pair)]
            done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
            assert done.returncode != 0
    batch = f"get {token} {back}\nput {mine} {made}\n".encode()
    argv = ["sftp", *attacker.options("-P"), "-b", "-", there]
    done = subprocess.run(argv, input=batch, capture_output=True, timeout=60, check=False)
    assert done.returncode != 0
    assert not back.exists()
    assert not made.exists()


def test_forwards_to_no_socket_and_no_port(attacker: Attacker) -> None:
    near, run = attacker.folder / "near", attacker.spot.host.settings.run
    for name in ("surrogate.sock", "peers.sock", f"t/{attacker.spot.door(LAPTOP).name}"):
        process = attacker.forwarding("-L", f"{near}:{run / name}")
        assert eventually(near.exists)
        with HttpClient(near) as client, pytest.raises(UnavailableError):
            client.get_json("/v1/status")
        process.terminate()
        process.communicate(timeout=30)
        near.unlink(missing_ok=True)
    port = attacker.sshd.port
    code, out, _ = attacker.ssh("-W", f"127.0.0.1:{port}", attacker.host.destination)
    assert (code != 0, out) == (True, b"")


def test_deletes_no_file_and_takes_no_socket(attacker: Attacker) -> None:
    """By the unlinking that OpenSSH does before it binds."""
    file = attacker.folder / "precious"
    file.write_text("precious")
    strict = ["-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes"]
    for victim in (file, attacker.spot.socket):
        process = attacker.forwarding(*strict, "-R", f"{victim}:{attacker.folder / 'mine'}")
        _, said = process.communicate(timeout=60)
        assert process.returncode != 0
        assert b"forwarding failed" in said or b"Could not" in said
    process = attacker.forwarding(*strict, "-R", "127.0.0.1:0:127.0.0.1:1")
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert file.read_text() == "precious"


NO_NAMES = (
    "/etc/passwd",
    "../surrogate.sock",
    "api/../../surrogate.sock",
    "streams/..",
    "streams/a/b",
    "streams/nobody-1",
    "peers",
    "operator",
    "api\0x",
    "",
)


def test_opens_nothing_but_what_has_a_name(attacker: Attacker) -> None:
    opens = attempts(NO_NAMES)
    answers = attacker.says(*opens)
    resets = sorted((number, kind) for kind, number, _ in answers)
    assert resets == [(number, MuxKind.RESET) for _, number, _ in opens]


def test_offers_no_path(attacker: Attacker) -> None:
    run = attacker.spot.host.settings.run
    tokens = (b"/etc/passwd", b"../../../etc/x", str(run / "x").encode(), b"0011", b"\xff" * 16)
    answers = attacker.says(*((MuxKind.OFFER, 0, token) for token in tokens))
    assert [(kind, number) for kind, number, _ in answers] == [(MuxKind.REFUSED, 0)] * len(tokens)
    answers = attacker.says(*((MuxKind.OFFER, 0, b"%016x" % n) for n in range(100)))
    refused = [kind for kind, _, _ in answers if kind == MuxKind.REFUSED]
    assert len(refused) == 100 - 32


def test_reaches_nothing_that_another_offered(attacker: Attacker, short_path: Path) -> None:
    other = Identity.create(short_path / "other")
    attacker.sshd.authorize(other.public)
    victim = attacker.sshd.host("victim", other.path, short_path / "known_hosts")
    with SshLink.open(victim) as link:
        path = Path(link.offer({TOKEN: attacker.spot.door(LAPTOP)})[TOKEN])
        inode = path.stat().st_ino
        ((kind, _, said),) = attacker.says((MuxKind.OFFER, 0, TOKEN.encode()))
        assert kind == MuxKind.OFFERED
        assert Path(said[16:].decode()).parent != path.parent
        names = (TOKEN, str(path), f"streams/{TOKEN}")
        assert [k for k, *_ in attacker.says(*attempts(names))] == [MuxKind.RESET] * len(names)
        assert path.stat().st_ino == inode
        assert path.parent.stat().st_mode & 0o777 == 0o700
    known = {tenant.identity for tenant in attacker.spot.host.tenants.all()}
    keys = (other.public, Identity.open(attacker.host.identity).public)
    assert known >= {fingerprint(key) for key in keys}


def test_bytes_that_are_no_frames_end_the_door_and_nothing_else(attacker: Attacker) -> None:
    for said in (b"GET / HTTP/1.1\r\n\r\n", HELLO_BYTES + b"\xff" * 9, b"SDOR\x07\x09", bytes(99)):
        code, out, _ = attacker.ssh("-T", attacker.host.destination, said=said)
        assert code != 0
        assert out == HELLO_BYTES
    assert eventually(lambda: not attacker.sshd.sessions())


def test_the_operator_is_told_what_is_not_in_force(attacker: Attacker, short_path: Path) -> None:
    settings, user = attacker.spot.host.settings, attacker.sshd.user
    with Sshd.start(short_path / "bare", authorized=["ssh-ed25519 AAAA x"]) as bare:
        config = bare.folder / "sshd_config"
        findings = [finding.what for finding in preflight(settings, user, config)]
    assert any("ForceCommand" in finding for finding in findings)
    assert any("ExposeAuthInfo yes" in finding for finding in findings)
    assert any("line 1" in finding and "more than a door" in finding for finding in findings)
    here = preflight(settings, user, attacker.sshd.folder / "sshd_config")
    assert [f.what for f in here if "ForceCommand" not in f.what and "line" not in f.what] == []
