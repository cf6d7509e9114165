# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Speech recognition: a WAV file in, the words out. Stateless.

    POST /recognize   body: WAV, one channel of 16-bit PCM, 16 to 48 kHz, at most 30 s
                      answer: {"text", "score", "seconds", "words": [{"word", "start", "end"}]}

Times are seconds from the beginning; text is empty and score null where nothing was understood. The
answer depends on the body alone: each utterance begins with the decoder's initial state (features
are normalised over the utterance itself, and the second search pass is kept on, without which the
result of an utterance depends a little on the one before). One thread serves.
"""

from __future__ import annotations

import io
import struct
import sys
import warnings
import wave
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import audioop

RATE = 16000
HIGHEST_RATE = 48000
SECONDS_LIMIT = 30
SHORTEST_SECONDS = 0.1
BODY_LIMIT = SECONDS_LIMIT * HIGHEST_RATE * 2 + 4096
SAMPLE_BYTES = 2
FRAMES_PER_SECOND = 100

MODEL = "/usr/share/pocketsphinx/model/en-us"

Recogniser = Callable[[bytes], dict[str, Any]]
"""From samples (16-bit little-endian, RATE) to what the service answers."""


def create_app(recognise: Recogniser) -> Flask:
    """The WSGI application around a recogniser."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT

    @app.get("/")
    def about() -> Any:
        return {"service": "speech", "language": "en-us", "rate": RATE}

    @app.post("/recognize")
    def recognize() -> Any:
        samples = samples_of(request.get_data())
        return {"seconds": len(samples) // SAMPLE_BYTES / RATE, **recognise(samples)}

    @app.after_request
    def date(response: Response) -> Response:
        given = request.headers.get("X-Satchel-Time", "")
        if given.isascii() and given.isdigit() and len(given) <= 20:
            seconds = min(int(given) // 10**9, 253402300799)
            response.headers["Date"] = formatdate(seconds, usegmt=True)
        return response

    @app.errorhandler(HTTPException)
    def error(error: HTTPException) -> Any:
        return {"error": error.description}, error.code

    return app


def samples_of(body: bytes) -> bytes:
    """The samples of a WAV file at RATE, or a 400, 413 or 415 that says what is wrong with it."""
    try:
        with wave.open(io.BytesIO(body)) as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            samples = bytes(file.readframes(len(body)))
    except (wave.Error, EOFError, struct.error, ValueError, RuntimeError) as error:
        abort(400, f"the body is not a WAV file of PCM: {error or 'it is cut short'}")
    if channels != 1 or width != SAMPLE_BYTES:
        abort(415, f"one channel of 16 bits is wanted, not {channels} of {8 * width}")
    if not RATE <= rate <= HIGHEST_RATE:
        abort(415, f"{RATE} to {HIGHEST_RATE} samples a second are wanted, not {rate}")
    samples = samples[: len(samples) // SAMPLE_BYTES * SAMPLE_BYTES]
    seconds = len(samples) / SAMPLE_BYTES / rate
    if seconds > SECONDS_LIMIT:
        abort(413, f"at most {SECONDS_LIMIT} s are taken, not {seconds:.0f}")
    if seconds < SHORTEST_SECONDS:
        abort(400, f"at least {SHORTEST_SECONDS} s are needed")
    if rate != RATE:
        return bytes(audioop.ratecv(samples, SAMPLE_BYTES, 1, rate, RATE, None)[0])
    return samples


class PocketSphinx:
    """The decoder with its US English model, loaded and used once when this returns."""

    def __init__(self, model: str = MODEL) -> None:
        from pocketsphinx.pocketsphinx import Decoder  # type: ignore[import-not-found]

        config = Decoder.default_config()
        config.set_string("-hmm", f"{model}/en-us")
        config.set_string("-lm", f"{model}/en-us.lm.bin")
        config.set_string("-dict", f"{model}/cmudict-en-us.dict")
        config.set_string("-cmn", "batch")
        config.set_int("-maxhmmpf", 5000)
        config.set_int("-maxwpf", 20)
        config.set_string("-logfn", "/dev/null")
        self.decoder = Decoder(config)

    def __call__(self, samples: bytes) -> dict[str, Any]:
        """What was said, by a decoder that forgets it again."""
        self.decoder.start_stream()
        self.decoder.start_utt()
        self.decoder.process_raw(samples, False, True)
        self.decoder.end_utt()
        hypothesis = self.decoder.hyp()
        words = [
            {
                "word": segment.word.split("(")[0],
                "start": segment.start_frame / FRAMES_PER_SECOND,
                "end": (segment.end_frame + 1) / FRAMES_PER_SECOND,
            }
            for segment in (self.decoder.seg() if hypothesis else ())
            if not segment.word.startswith(("<", "["))
        ]
        return {
            "text": hypothesis.hypstr if hypothesis else "",
            "score": hypothesis.best_score if hypothesis else None,
            "words": words,
        }


def warm_samples() -> bytes:
    """A second of something that is not silence, always the same."""
    state, samples = 1, bytearray()
    for number in range(RATE):
        state = (state * 1103515245 + 12345) % (1 << 31)
        loud = number // (RATE // 8) % 2
        samples += struct.pack("<h", ((state >> 16) - 16384) // 4 * loud)
    return bytes(samples)


def main() -> None:
    """speech.py PORT"""
    import waitress

    recognise = PocketSphinx()
    recognise(warm_samples())
    app = create_app(recognise)
    app.test_client().get("/")
    waitress.serve(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        threads=1,
        ident=None,
        max_request_body_size=BODY_LIMIT,
        asyncore_loop_timeout=3600,
        cleanup_interval=3600,
        channel_timeout=3600,
    )


if __name__ == "__main__":
    main()
