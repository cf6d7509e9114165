# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program behind uplink and a second writer at the server change the same few files at random.

What the program may see, and what has to be left of what both wrote, is worked out from the history
of the server's files alone. A failure says its seed and its number, which repeat it.
"""

import base64
import contextlib
import http.client
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.needs import requires
from tests.uplink.gateway.site import PASSWORD, USER, Site, describe, site

pytestmark = requires("curl")

FRESH = 0.3
NAMES = tuple(f"file{number}" for number in range(6))
ENTRY = re.compile(rb"<[^<>]*href>([^<]*)</.*?(?:getcontentlength>(\d+)<|</[^<>]*response>)", re.S)
TOKEN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


class Speaker:
    """HTTP with one address, over one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._base = parts.path
        self._http = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)

    def ask(self, method: str, name: str, body: bytes | None = None) -> tuple[int, bytes]:
        headers = {"Authorization": f"Basic {TOKEN}"}
        headers |= {"Depth": "1"} if method == "PROPFIND" else {}
        for last in (False, True):
            try:
                self._http.request(method, f"{self._base}/{name}", body, headers)
                answer = self._http.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError):
                self._http.close()
                if last:
                    raise
        raise AssertionError

    def close(self) -> None:
        self._http.close()


@dataclass
class Version:
    """content: None where there is no file; since: when the server had it; ours: by the program"""

    content: bytes | None
    since: float
    ours: bool


@dataclass
class VersionSeen:
    """known: how many versions the server had had when the program was answered"""

    content: bytes
    known: int


@dataclass
class Story:
    """What both did. least: of each file, the version that the program has to see at least"""

    cloud: Site
    program: Speaker
    second: Speaker
    draw: random.Random
    versions: dict[str, list[Version]] = field(default_factory=dict)
    held: dict[str, VersionSeen] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    written: int = 0
    conflicts: int = 0

    def __post_init__(self) -> None:
        for name in NAMES:
            self.versions[name], self.least[name] = [Version(None, 0.0, False)], 0

    def step(self) -> None:
        name = self.draw.choice(NAMES)
        acts = {
            self.write: 24, self.read: 30, self.list_all: 12, self.delete: 4,
            self.write_elsewhere: 18, self.delete_elsewhere: 4, self.flush: 6, self.rest: 1,
        }  # fmt: skip
        (act,) = self.draw.choices(list(acts), list(acts.values()))
        act(name)

    def write(self, name: str) -> None:
        content = self._content(b"ours")
        known = len(self.versions[name])
        status, said = self.program.ask("PUT", name, content)
        assert status in (200, 201, 204), (status, said)
        if self._at_server(name) == content:
            self.held.pop(name, None)
            self._note(name, content, ours=True)
            self._settle()
        else:
            self.held[name] = VersionSeen(content, known)

    def read(self, name: str) -> None:
        began = time.time()
        status, said = self.program.ask("GET", name)
        assert status in (200, 404), (status, said)
        got = said if status == 200 else None
        assert got in self._allowed(name, began), (name, got and got[:40])

    def list_all(self, _: str) -> None:
        began = time.time()
        status, said = self.program.ask("PROPFIND", "")
        assert status == 207, said
        sizes = {m[1].decode().rpartition("/")[2]: int(m[2] or 0) for m in ENTRY.finditer(said)}
        for name in NAMES:
            allowed = [None if c is None else len(c) for c in self._allowed(name, began)]
            assert sizes.get(name) in allowed, (name, sizes.get(name), allowed)

    def delete(self, name: str) -> None:
        if name in self.held:
            return
        status, said = self.program.ask("DELETE", name)
        assert status in (200, 204, 404), (status, said)
        if self._at_server(name) is None and self.versions[name][-1].content is not None:
            self._note(name, None, ours=True)
        self._settle()

    def write_elsewhere(self, name: str) -> None:
        content = self._content(b"theirs")
        status, said = self.second.ask("PUT", name, content)
        assert status in (200, 201, 204), (status, said)
        self._note(name, content, ours=False)

    def delete_elsewhere(self, name: str) -> None:
        if self.versions[name][-1].content is not None:
            assert self.second.ask("DELETE", name)[0] in (200, 204)
            self._note(name, None, ours=False)

    def flush(self, _: str) -> None:
        self.cloud.flush()
        self._settle()
        assert not self.held

    def rest(self, _: str) -> None:
        time.sleep(FRESH + 0.05)

    def _settle(self) -> None:
        """What was held may be at the server by now, as a flush or what came after it have it."""
        copies = {p: p.read_bytes() for p in self.cloud.server.files.glob("*conflict*")}
        for name, held in list(self.held.items()):
            now = self._at_server(name)
            if now == held.content:
                theirs = self.versions[name][held.known :][-1:]
                lost = [v for v in theirs if not v.ours and v.content is not None]
                assert not lost, f"{name} of the second writer was overwritten"
                self._note(name, held.content, ours=True)
                del self.held[name]
            elif held.content in copies.values():
                assert now == self.versions[name][-1].content
                self.conflicts += 1
                self.least[name] = 0
                del self.held[name]
        for path in copies:
            path.unlink()
        for name in NAMES:
            assert self._at_server(name) == self.versions[name][-1].content, name

    def _allowed(self, name: str, began: float) -> list[bytes | None]:
        """What a read that began then may give."""
        if name in self.held:
            return [self.held[name].content]
        told = self.versions[name]
        ends = [version.since for version in told[1:]] + [time.time() + 1]
        return [
            version.content
            for number, (version, end) in enumerate(zip(told, ends, strict=True))
            if end > began - FRESH and number >= self.least[name]
        ]

    def _note(self, name: str, content: bytes | None, *, ours: bool) -> None:
        self.versions[name].append(Version(content, time.time(), ours))
        if ours:
            self.least[name] = len(self.versions[name]) - 1

    def _content(self, whose: bytes) -> bytes:
        """Each of another size: the server's etags are of the size and the second."""
        self.written += 1
        return (whose + b" %d " % self.written).ljust(20 + self.written, b".")

    def _at_server(self, name: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError):
            return (self.cloud.server.files / name).read_bytes()
        return None


@contextlib.contextmanager
def story(folder: Path, seed: int) -> Iterator[Story]:
    describe(folder, fresh=FRESH)
    program = Path(sys.executable).resolve().name
    with site(folder, settings=f'background = ["{program}"]') as cloud:
        cloud.hold()
        with (
            contextlib.closing(Speaker(cloud.url)) as mine,
            contextlib.closing(Speaker(cloud.server.url)) as theirs,
        ):
            yield Story(cloud, mine, theirs, random.Random(seed))


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(1, 400), *(pytest.param(seed, 6000, marks=pytest.mark.nightly) for seed in range(2, 6))],
)
def test_no_read_is_too_old_and_nothing_is_overwritten_silently(
    short_path: Path, seed: int, steps: int
) -> None:
    with story(short_path, seed) as told:
        for number in range(steps):
            try:
                told.step()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {number}: {error}") from error
        told.flush("")
        assert told.cloud.ask("stats")["held"] > steps // 50
        assert told.conflicts > steps // 200
