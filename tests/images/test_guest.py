# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Both services in real guests: how soon they are ready, that they work, and repeat themselves."""

import json
from pathlib import Path
from typing import Any

import pytest

from images import PHRASES, speak
from replay import Operation, Response
from satchel.ids import OperationNumber
from testbed.built import built_image
from tests.images.guest import BOOT_SECONDS, Guest, running
from tests.needs import requires

pytestmark = [
    pytest.mark.machine,
    requires("qemu-system-x86_64", "mmdebstrap", "apt-get", "debugfs"),
]

TIME = 1_700_000_000 * 10**9


class Client:
    """Sends HTTP requests as numbered operations."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.number = 0

    def request(self, method: str, path: str, body: bytes = b"") -> Response:
        self.number += 1
        time_ns, seed = TIME + self.number * 3600 * 10**9, self.number * 77
        head = f"{method} {path} HTTP/1.1\r\nHost: service\r\nConnection: close\r\n"
        head += f"X-Satchel-Time: {time_ns}\r\nX-Satchel-Seed: {seed}\r\n"
        payload = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        operation = Operation(OperationNumber(self.number), time_ns, seed, payload)
        return self.guest.channel.execute(operation, 60.0)

    def json(self, method: str, path: str, value: object = None) -> Any:
        body = b"" if value is None else json.dumps(value).encode()
        return parsed(self.request(method, path, body))


def parsed(response: Response) -> Any:
    return json.loads(response.payload.split(b"\r\n\r\n", 1)[1])


def report(name: str, guest: Guest) -> None:
    ram = guest.nonzero_ram() / 1e6
    print(f"{name}: ready after {guest.ready_seconds:.1f} s, {ram:.0f} MB of RAM are not zero")


def work(client: Client) -> list[bytes]:
    """Twelve operations on notes of every kind; the raw responses."""
    made = []
    for n in range(4):
        note = json.dumps({"title": f"note {n}", "text": "text " * n}).encode()
        made.append(client.request("POST", "/api/notes", note).payload)
        made.append(client.request("GET", f"/?q={n}").payload)
    made.append(client.request("PUT", "/api/notes/2", b'{"title": "changed"}').payload)
    made.append(client.request("DELETE", "/api/notes/1").payload)
    made.append(client.request("GET", "/nothing").payload)
    made.append(client.request("GET", "/export").payload)
    return made


def test_two_guests_of_notes_answer_and_remember_the_same(tmp_path: Path, short_path: Path) -> None:
    image = built_image("notes")
    answers, digests = [], []
    for name in ("a", "b"):
        (short_path / name).mkdir()
        with running(image, short_path / name) as guest:
            report(name, guest)
            assert guest.ready_seconds < BOOT_SECONDS
            answers.append(work(Client(guest)))
            digests.append(guest.channel.digest(image.recipe.state))
            guest.channel.sync()
            guest.shell("/usr/sbin/e2fsck -fn /dev/vda || test $? = 4")
    assert answers[0] == answers[1]
    assert digests[0] == digests[1]
    exported = json.loads(answers[0][-1].split(b"\r\n\r\n", 1)[1])
    assert [note["title"] for note in exported["notes"]] == ["changed", "note 2", "note 3"]


def test_the_guest_is_quiet_and_runs_its_service_as_a_user(short_path: Path) -> None:
    image = built_image("notes")
    with running(image, short_path) as guest:
        names = guest.shell("cat /proc/[0-9]*/comm").split()
        programs = [name for name in names if name in ("systemd", "cron", "dbus-daemon")]
        assert not programs
        assert "satchel-agent" in names
        python = guest.shell("grep -l python /proc/[0-9]*/comm").strip()
        status = guest.shell(f"grep ^Uid: {Path(python).parent}/status").split()
        assert status[1] == "33"
        clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        assert guest.shell(f"cat {clock}").strip() == "hpet"
        assert guest.shell("hostname").strip() == "notes"
        assert "vda / ext4 rw,noatime" in guest.shell("cat /proc/mounts").replace("/dev/", "")


@pytest.mark.nightly
def test_speech_understands_every_phrase_and_forgets_it(short_path: Path) -> None:
    image = built_image("speech")
    sounds = {phrase: speak(phrase) for phrase in PHRASES}
    with running(image, short_path) as guest:
        report("speech", guest)
        client = Client(guest)
        first = {}
        for phrase, sound in sounds.items():
            answer = parsed(client.request("POST", "/recognize", sound))
            assert answer["text"] == phrase
            assert " ".join(word["word"] for word in answer["words"]) == phrase
            first[phrase] = answer
        for phrase in (PHRASES[2], PHRASES[0], PHRASES[0], PHRASES[1]):
            assert parsed(client.request("POST", "/recognize", sounds[phrase])) == first[phrase]
        assert "error" in parsed(client.request("POST", "/recognize", b"rubbish"))
        assert int(guest.shell("grep MemAvailable /proc/meminfo").split()[1]) > 32 << 10
