# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Input for the speech service that a machine can make: espeak-ng speaks, the service understands.

The voice, the speed and the phrases were chosen among others by what the recogniser makes of them:
each of these phrases comes back word for word.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from satchel.errors import SatchelError, UnsupportedError

PHRASES = (
    "what time is it",
    "where is the nearest hospital",
    "send a message to my wife",
    "please call me tomorrow morning",
    "show me the way to the airport",
    "one two three four five six",
    "i would like a cup of coffee",
)
"""What the speech service understands without an error when `speak` says it."""

_VOICE = "en-us+f2"
_WORDS_PER_MINUTE = 165


def speak(text: str) -> bytes:
    """A WAV file (one channel, 16 bits, 22,050 Hz) of `text`; the same text gives the same bytes.

    Raises UnsupportedError without espeak-ng.
    """
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder) / "wav"
        argv = ["espeak-ng", "-v", _VOICE, "-s", str(_WORDS_PER_MINUTE), "-w", str(wav), "--", text]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise UnsupportedError("no espeak-ng on this host", fix="install espeak-ng") from error
        if done.returncode != 0 or not wav.exists():
            raise SatchelError("espeak-ng failed", why=done.stderr.strip()[-500:])
        return wav.read_bytes()
