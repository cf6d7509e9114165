# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import random
import re
from pathlib import Path

import pytest

import replay
from replay import MAX_PAYLOAD, frames
from replay.frames import AgentFrame, FrameReader, FrameStatus, FrameType

FRAME = AgentFrame(
    FrameType.EXECUTE,
    id=0x01020304,
    timeout_ms=5000,
    number=7,
    time_ns=1_700_000_000_123_456_789,
    seed=0xFEDCBA9876543210,
    payload=b"a\xc0b\xdbc",
)
GOLDEN = bytes.fromhex(
    "c0"
    "53415446 01 02 0000 04030201 88130000"
    "0700000000000000 15cd853dfe9c9717 1032547698badcfe"
    "05000000 75083413"
    "61 dbdc 62 dbdd 63"
    "c0"
)
HEADER = (Path(replay.__file__).parent / "agent" / "frame.h").read_text()


def read(data: bytes, step: int = 1 << 20) -> list[AgentFrame]:
    reader = FrameReader()
    return [f for at in range(0, len(data), step) for f in reader.feed(data[at : at + step])]


def test_frame_golden_bytes() -> None:
    assert FRAME.encode() == GOLDEN
    assert read(GOLDEN) == [FRAME]


@pytest.mark.parametrize("step", [1, 2, 3, 50])
def test_frames_arrive_in_pieces(step: int) -> None:
    assert read(GOLDEN * 3, step) == [FRAME] * 3


def test_payloads_of_special_bytes_survive() -> None:
    noise = random.Random(2)
    for _ in range(300):
        payload = bytes(noise.choices(b"\xc0\xdb\xdc\xdd\x00", k=noise.randrange(40)))
        frame = AgentFrame(FrameType.RUN, id=1, payload=payload)
        assert read(frame.encode()) == [frame]


def test_a_frame_in_a_payload_is_not_a_frame() -> None:
    outer = AgentFrame(FrameType.EXECUTE, id=1, payload=FRAME.encode() * 2)
    assert read(outer.encode()) == [outer]
    assert read(outer.encode()[:-1] + FRAME.encode()) == [outer, FRAME]


def test_a_half_frame_costs_itself_only() -> None:
    for size in range(len(GOLDEN)):
        assert read(GOLDEN[:size] + GOLDEN)[-1:] == [FRAME]


def test_damaged_frames_are_dropped() -> None:
    for at in range(len(GOLDEN)):
        damaged = bytearray(GOLDEN)
        damaged[at] ^= 0x01
        found = read(bytes(damaged) + GOLDEN)
        assert found in ([FRAME], [FRAME, FRAME])
        assert found == [FRAME] or at in (0, len(GOLDEN) - 1)


def test_noise_is_skipped() -> None:
    noise = random.Random(3).randbytes(1 << 16)
    assert read(noise + GOLDEN) == [FRAME]


def test_endless_noise_does_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MAX_STUFFED", 1000)
    reader = FrameReader()
    for _ in range(100):
        assert not list(reader.feed(b"x" * 100))
    assert sum(map(len, reader._pieces)) <= 1000
    assert list(reader.feed(GOLDEN)) == [FRAME]


def constants(enum_name: str) -> dict[str, int]:
    """The members of an enum in frame.h: {"BAD_REQUEST": 9} for kBadRequest = 9."""
    text = re.search(rf"enum {enum_name} .*?\{{(.*?)\}};", HEADER, re.DOTALL)
    assert text
    found = re.findall(r"k(\w+) = (\d+),", text[1])
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper(): int(value) for name, value in found}


def test_python_says_what_the_header_says() -> None:
    assert constants("FrameType") == {member.name: member.value for member in FrameType}
    assert constants("FrameStatus") == {member.name: member.value for member in FrameStatus}
    assert f"kFrameMagic = 0x{frames.FRAME_MAGIC:X};" in HEADER
    assert f"kFrameVersion = {frames.FRAME_VERSION};" in HEADER
    assert f"kEnd = 0x{frames.END[0]:X};" in HEADER
    assert f"kEsc = 0x{frames.ESC[0]:X};" in HEADER
    assert "kMaxPayload = 64u << 20;" in HEADER
    assert MAX_PAYLOAD == 64 << 20
