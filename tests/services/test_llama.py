# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's server for Python, carried: words that it streams to curl go on through a move, and
are the words that a machine which stayed says."""

import json
import subprocess
import threading
from pathlib import Path

import pytest

from testbed.built import cache_folder
from tests.client.carried import carried_world
from tests.machines import MACHINE
from tests.needs import requires
from tests.services.examples import example
from tests.services.packages import packages
from tests.services.weights import model
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "curl", "cmake", "g++", "sshd", "ssh"),
]

PATIENCE_SECONDS = 300.0
WORDS = 10_000


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """What a person adds to the recipe. Compiling it takes minutes, once."""
    return packages("llama-cpp-python[server]", cache_folder() / "llama-packages", "/opt/llama") | {
        "/opt/llama/model.gguf": model()
    }


class Streaming:
    """curl, and what it has been told so far."""

    def __init__(self, port: int) -> None:
        asked = {"prompt": " w1 w2", "max_tokens": WORDS, "stream": True, "temperature": 0}
        argv = ["curl", "-sSN", "--fail", "-H", "Content-Type: application/json"]
        argv += ["-d", json.dumps(asked), f"http://127.0.0.1:{port}/v1/completions"]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.words: list[str] = []
        self.ended = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = line.removeprefix("data: ").strip()
            if event.startswith("{"):
                self.words += json.loads(event)["choices"][0]["text"].split()
        self.ended = True

    def hears(self, more: int) -> bool:
        """Wait for so many more words. Not if the stream has ended by itself."""
        wanted = len(self.words) + more
        heard = eventually(lambda: len(self.words) >= wanted or self.ended, PATIENCE_SECONDS)
        return heard and not self.ended

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()


def test_streamed_words_go_on_through_a_move(files: dict[str, bytes], tmp_path: Path) -> None:
    example("llama", tmp_path, files)
    with carried_world("llama") as world:
        session = world.session()
        moving = Streaming(session.port)
        try:
            assert moving.hears(5)
            print(session.move("a"))
            assert moving.hears(20)
        finally:
            moving.close()
        staying = Streaming(session.port)
        try:
            assert staying.hears(len(moving.words))
        finally:
            staying.close()
        assert staying.words[: len(moving.words)] == moving.words
        assert session.relay.counts().reset == 0
