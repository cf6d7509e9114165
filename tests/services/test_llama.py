# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""llama-cpp-python of PyPI, carried: an answer that is read as it is made goes on through moves."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.built import cache_folder
from tests.client.carried import carried_world
from tests.client.world import carried_of
from tests.machines import MACHINE
from tests.needs import requires
from tests.services.examples import EXAMPLES, example
from tests.services.printing import PATIENCE_SECONDS, printing
from tests.services.tiny_model import CONTEXT, WORDS, tiny_model

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    pytest.mark.timeout(3600),  # a compiler runs for minutes, once
    requires(*MACHINE, "apt-get", "curl", "cmake", "g++", "sshd", "ssh"),
]

HEAD = "data: "


def program() -> Path:
    """A folder with llama-cpp-python, compiled as docs/services/llama.md says. That takes minutes
    once; pip keeps what it has compiled."""
    kept = cache_folder() / "llama-program"
    installed = kept / "installed"
    if not installed.exists():
        script = EXAMPLES / "llama" / "install"
        half = kept / "half"
        subprocess.run(["bash", str(script), str(half)], check=True, timeout=3600)
        half.rename(installed)
    return installed


def curl(port: int, count: int, stream: bool) -> Sequence[str]:
    """The command that asks for so many tokens, the same ones each time."""
    asked = {"prompt": "ba be bi", "max_tokens": count, "top_k": 16, "temperature": 1.0, "seed": 7}
    url = f"http://127.0.0.1:{port}/v1/completions"
    kind = "Content-Type: application/json"
    return ["curl", "-sSN", "--fail", "-H", kind, "-d", json.dumps(asked | {"stream": stream}), url]


def text(answer: str) -> str:
    said: str = json.loads(answer)["choices"][0]["text"]
    return said


def test_a_streamed_answer_goes_on_through_moves(tmp_path: Path) -> None:
    added: dict[str, bytes | Path] = {
        "usr/lib/llama": program(),
        "usr/share/llama/model.gguf": tiny_model(),
    }
    example("llama", tmp_path, added)
    with carried_world("llama") as world:
        session = world.session()
        with printing(curl(session.port, CONTEXT // 2, stream=True)) as client:
            assert client.prints_more()
            for place in ("a", "b"):
                print(session.move(place))
                assert client.prints_more()
            pieces = [line for line in client.close()[:-1] if line.startswith(HEAD)]
        words = "".join(text(piece.removeprefix(HEAD)) for piece in pieces).split()
        asked = curl(session.port, len(pieces), stream=False)
        whole = subprocess.run(asked, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
        assert len(words) > 8
        assert len(set(words)) > len(WORDS) / 8  # it babbles, and not one word alone
        assert words == text(whole.stdout.decode()).split()[: len(words)]
        assert carried_of(session).relay.counts().reset == 0
