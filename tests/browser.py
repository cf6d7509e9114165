# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""noVNC as Debian has it, in Chromium without a screen, which a test leads by WebDriver.

The driver is asked by curl: that runs in a namespace of its own as well, and five requests are no
reason for a client library of ten packages.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.headless import running
from tests.needs import requires
from tests.waiting import eventually

NOVNC = requires("chromium", "chromedriver", "websockify", "curl")

PAGES = "/usr/share/novnc"

KEYS = {"ctrl": "\ue009", "enter": "\ue007", "home": "\ue011", "tab": "\ue004"}
"""Those of WebDriver (17.4.2) that have no character."""

FREE_PORT = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1])"

STATE = "return document.documentElement.classList.contains('noVNC_connected')"

WHERE = """
const box = document.querySelector('#noVNC_container canvas').getBoundingClientRect();
return [box.x, box.y];
"""

PICTURE = """
const canvas = document.querySelector('#noVNC_container canvas');
const seen = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
const parts = [];
for (let start = 0; start < seen.length; start += 32768) {
  const part = Array.from(seen.subarray(start, start + 32768)).filter((_, at) => at % 4 != 3);
  parts.push(String.fromCharCode.apply(null, part));
}
return btoa(parts.join(''));
"""


@dataclass
class Browser:
    """A page of noVNC. session: the driver's, as a URL. prefix: what runs a program where it is."""

    session: str
    driver: subprocess.Popen[bytes]
    prefix: Sequence[str]

    @property
    def runs(self) -> bool:
        """Whether the page has its first connection still: it is told to make no second one."""
        return self.driver.poll() is None and bool(self.says(STATE))

    def press(self, *keys: str) -> None:
        """Keys of the keyboard in front of the page; `ctrl-o` is two at once."""
        for key in keys:
            words = [KEYS.get(word, word) for word in key.split("-")]
            down = [{"type": "keyDown", "value": word} for word in words]
            up = [{"type": "keyUp", "value": word} for word in reversed(words)]
            self._acts("key", "keyboard", [*down, *up])

    def types(self, text: str) -> None:
        self.press(*text)

    def point(self, x: int, y: int) -> None:
        """The mouse in front of the page, at that pixel of the picture."""
        left, top = self.says(WHERE)
        to = {"type": "pointerMove", "x": int(left) + x, "y": int(top) + y}
        self._acts("pointer", "mouse", [to])

    def picture(self) -> bytes:
        """What is on noVNC's canvas: rows of red, green, blue."""
        return base64.b64decode(self.says(PICTURE))

    def goes_to(self, url: str) -> None:
        told(self.prefix, f"{self.session}/url", {"url": url})

    def opens_window(self) -> None:
        """Open a tab and use it from now on."""
        made = told(self.prefix, f"{self.session}/window/new", {"type": "tab"})
        told(self.prefix, f"{self.session}/window", {"handle": made["handle"]})

    def says(self, script: str, how: str = "sync") -> Any:
        """What a script in the page returns; where `how` is `async`, what it tells its callback."""
        body = {"script": script, "args": []}
        return told(self.prefix, f"{self.session}/execute/{how}", body)

    def devtools(self, command: str, **arguments: Any) -> Any:
        """What Chromium answers to a command of its DevTools."""
        body = {"cmd": command, "params": arguments}
        return told(self.prefix, f"{self.session}/goog/cdp/execute", body)

    def accept(self) -> None:
        """Say yes to the question that the page asks."""
        told(self.prefix, f"{self.session}/alert/accept", {})

    def _acts(self, kind: str, device: str, actions: list[dict[str, Any]]) -> None:
        body = {"actions": [{"type": kind, "id": device, "actions": actions}]}
        told(self.prefix, f"{self.session}/actions", body)


def told(prefix: Sequence[str], url: str, body: Any, method: str = "POST") -> Any:
    """The driver's answer to a command."""
    argv = [*prefix, "curl", "--silent", "--show-error", "--request", method, "--data", "@-", url]
    said = subprocess.run(
        argv, input=json.dumps(body).encode(), check=True, capture_output=True, timeout=60
    )
    value = json.loads(said.stdout)["value"]
    assert not isinstance(value, dict) or "error" not in value, value
    return value


@contextlib.contextmanager
def browsing(
    folder: Path, port: int, size: tuple[int, int], prefix: Sequence[str] = ()
) -> Iterator[Browser]:
    """noVNC's page with a viewer of that port, in a window that has room for that size."""
    folder.mkdir()
    web = _free_port(prefix)
    page = f"http://127.0.0.1:{web}/vnc.html?autoconnect=true&reconnect=false&resize=off"
    gate = ["websockify", "--web", PAGES, f"127.0.0.1:{web}", f"127.0.0.1:{port}"]
    with (
        (folder / "log").open("wb") as log,
        running([*prefix, *gate], {}, log, log),
        driven(folder, size, prefix) as browser,
    ):
        _await_answer(prefix, page)
        browser.goes_to(page)
        assert eventually(lambda: browser.runs, 60.0), (folder / "log").read_text()
        yield browser


@contextlib.contextmanager
def driven(folder: Path, size: tuple[int, int], prefix: Sequence[str] = ()) -> Iterator[Browser]:
    """Chromium with an empty page."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    options += [f"--window-size={size[0] + 200},{size[1] + 300}"]
    options += [f"--user-data-dir={folder / 'profile'}"]
    wanted = {"alwaysMatch": {"goog:chromeOptions": {"args": options}}}
    port = _free_port(prefix)
    place = f"http://127.0.0.1:{port}"
    with (
        (folder / "driver").open("wb") as log,
        running([*prefix, "chromedriver", f"--port={port}"], {}, log, log) as process,
    ):
        _await_answer(prefix, f"{place}/status")
        made = told(prefix, f"{place}/session", {"capabilities": wanted})
        session = f"{place}/session/{made['sessionId']}"
        try:
            yield Browser(session, process, prefix)
        finally:
            told(prefix, session, {}, "DELETE")


def _free_port(prefix: Sequence[str]) -> int:
    argv = [*prefix, sys.executable, "-c", FREE_PORT]
    return int(subprocess.run(argv, check=True, capture_output=True, timeout=20).stdout)


def _await_answer(prefix: Sequence[str], url: str) -> None:
    argv = [*prefix, "curl", "--silent", "--retry", "40", "--retry-connrefused"]
    argv += ["--retry-delay", "1", "--output", "/dev/null", url]
    subprocess.run(argv, check=True, timeout=60)
