# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The speech service's handling of sound, on the host; the recogniser is tested in a guest."""

import io
import struct
import wave

import pytest
from flask.testing import FlaskClient

from images import PHRASES, speak
from tests.images.guest_code import service_module
from tests.needs import requires


def wav(
    samples: bytes = b"\1\0" * 16000, *, rate: int = 16000, width: int = 2, channels: int = 1
) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(width)
        writer.setframerate(rate)
        writer.writeframes(samples)
    return file.getvalue()


@pytest.fixture
def heard() -> list[bytes]:
    return []


@pytest.fixture
def speech(heard: list[bytes]) -> FlaskClient:
    def recognise(samples: bytes) -> dict[str, object]:
        heard.append(samples)
        return {"text": "heard"}

    app = service_module("speech").create_app(recognise)
    made: FlaskClient = app.test_client()
    return made


def test_sound_arrives_as_it_is(speech: FlaskClient, heard: list[bytes]) -> None:
    samples = bytes(range(256)) * 125
    answer = speech.post("/recognize", data=wav(samples), headers={"X-Satchel-Time": "0"})
    assert answer.json == {"text": "heard", "seconds": 1.0}
    assert heard == [samples]
    assert answer.headers["Date"] == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_a_faster_rate_is_resampled(speech: FlaskClient, heard: list[bytes]) -> None:
    assert speech.post("/recognize", data=wav(bytes(2 * 48000), rate=48000)).status_code == 200
    assert len(heard[0]) == 2 * 16000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"RIFF", 400),
        (b"not a wav at all, but long enough to be one" * 10, 400),
        (wav()[:30], 400),
        (wav(b""), 400),
        (wav()[:20] + struct.pack("<H", 3) + wav()[22:], 400),
        (wav(channels=2), 415),
        (wav(width=1), 415),
        (wav(rate=8000), 415),
        (wav(rate=96000), 415),
        (wav(bytes(2 * 16000 * 31)), 413),
        (wav(bytes(2 * 48000 * 40), rate=48000), 413),
    ],
)
def test_rubbish_is_refused_and_says_why(
    speech: FlaskClient, heard: list[bytes], body: bytes, status: int
) -> None:
    answer = speech.post("/recognize", data=body)
    assert answer.status_code == status
    assert answer.json is not None
    assert answer.json["error"]
    assert not heard


def test_a_header_that_promises_too_much_is_taken_for_what_is_there(
    speech: FlaskClient, heard: list[bytes]
) -> None:
    body = wav()
    streamed = body[:4] + b"\xff\xff\xff\x7f" + body[8:40] + b"\xff\xff\xff\x7f" + body[44:]
    assert speech.post("/recognize", data=streamed).status_code == 200
    assert len(heard[0]) == 2 * 16000


@requires("espeak-ng")
def test_espeak_says_the_same_every_time_and_the_service_takes_it(
    speech: FlaskClient, heard: list[bytes]
) -> None:
    assert speak(PHRASES[0]) == speak(PHRASES[0])
    assert speech.post("/recognize", data=speak("--help")).status_code == 200
    assert speech.post("/recognize", data=speak(PHRASES[0])).status_code == 200
    assert 1 < len(heard[1]) / 2 / 16000 < 3
