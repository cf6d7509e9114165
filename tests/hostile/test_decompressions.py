# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that unpacks compressed bytes of a stranger has a bound, and is attacked here.

The tree is searched for calls of libraries and programs that unpack. Each file with one is in
ATTACKS, with a bomb that it has to refuse, or in OTHERS, with the reason or the test.
"""

import gzip
import lzma
import re
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from chunkstore import compress, decompress
from images import initrd
from replay.adapters import rfb
from replica import DeltaInvalid, Run, decode_delta, encode_delta
from replica.working_set import PRESET, Frame, WorkingSetInvalid, _filters
from satchel.errors import IntegrityError, UnsupportedError
from shares.node.hub.packing import COMPRESSED, unpack
from uplink.gateway import home_help
from wire.http.upstream import AnswerTooLong, ServiceAnswer

ROOT = Path(__file__).resolve().parents[2]
NO_PRODUCT = {"tests", "bench", "papers", "build", "docs", "scripts", "testbed"}
MIB = 1 << 20

UNPACKS = re.compile(
    r"\b(decompress|decompressobj|LZMADecompressor|BZ2Decompressor|ZstdDecompressor)\("
    r"|\b(gzip|lzma|bz2|zipfile|tarfile)\.(open|GzipFile|LZMAFile|BZ2File|ZipFile)\("
    r"|\bunpack_archive\(|\"-dcq?\"|\"(unxz|gunzip|unzstd)\""
    r"|\b(ZSTD_decompress\w*|inflate|uncompress|Snappy_Uncompress)\("
)

OTHERS = {
    "chunkstore/core/format/record.cc": ("kBlockSize", "tests/native/fuzz/record.cc"),
    "chunkstore/core/format/frame.cc": ("kMaxFrameChunks", "tests/native/fuzz/frame.cc"),
    "chunkstore/binding/compression.cc": ("size", "chunkstore/compression.py"),
    # A registry's layers count against the size of the recipe's disk.
    "images/containers.py": ("Layers", "tests/images/test_layers.py"),
    "images/layers.py": ("_read_left", "tests/images/test_layers.py"),
    # Archives that this program has made of Debian's signed packages.
    "images/tree.py": ("read_tar", "images/builder.py"),
    # A file that a person names: a disk that is full ends it.
    "images/signatures.py": ("program", "images/raw.py"),
    # An archive that the operator names, read piece by piece.
    "surrogate/cache/warming.py": ("PIECE", "tests/surrogate/test_warming.py"),
}
"""The bound, and where it is tested or kept."""


Attack = tuple[Callable[[], object], type[Exception]]
"""What a victim does with a bomb, and what it raises."""

BOMB = 32 * MIB
"""Bytes that each bomb unpacks to."""

MOST = 20 * MIB
"""Bytes of memory that a victim may take meanwhile."""


def delta() -> Attack:
    runs = [Run("ram", number, 16) for number in range(0, 1 << 14, 32)]
    good = encode_delta(b"", runs, lambda run: bytes(run.count << 12))

    def read() -> None:
        found = decode_delta(good, {"ram": 1 << 14})
        assert sum(len(block) for _, _, block in found.blocks()) == BOMB
        decode_delta(good[: good.index(b"\x78\x01")] + zlib.compress(bytes(8)), {"ram": 1 << 14})

    return read, DeltaInvalid


def working_set() -> Attack:
    bomb = lzma.compress(bytes(BOMB), lzma.FORMAT_RAW, filters=_filters(PRESET))
    return lambda: Frame(0, len(bomb), (Run("ram", 0, 256),)).expand(bomb), WorkingSetInvalid


def share() -> Attack:
    bomb = (4096).to_bytes(2, "little") + COMPRESSED + zeros_by_zstd()
    return lambda: unpack(bomb, [4096]), IntegrityError


def frame_of_zstd() -> Attack:
    bomb = zeros_by_zstd()
    return lambda: decompress(bomb, MIB), IntegrityError


def zeros_by_zstd() -> bytes:
    bomb = compress(bytes(BOMB))
    assert bomb
    return bomb


def screen() -> Attack:
    """The surrogate's daemon checks a guest's answer."""
    pixels = bytes(4096 * 2048 * rfb.PIXEL)
    assert len(pixels) == BOMB
    head = rfb._ANSWER.pack(b"SATS", 2, 1, 4096, 2048, bytes(32))
    whole = b"\0\0\0\1" + rfb.RECTANGLE.pack(0, 0, 4096, 2048, rfb.RAW) + pixels
    good, bad = head + zlib.compress(whole), head + zlib.compress(whole + b"x")

    def read() -> None:
        rfb.check(good)
        rfb.check(bad)

    return read, rfb.NotADesktop


def service() -> Attack:
    bomb = gzip.compress(bytes(BOMB))
    pieces = (bomb[at : at + 4096] for at in range(0, len(bomb), 4096))
    headers = [("Content-Encoding", "gzip")]
    return lambda: ServiceAnswer(200, headers, pieces).whole(MIB), AnswerTooLong


def home() -> Attack:
    bomb = zlib.compress(bytes(BOMB))
    return lambda: home_help._unpacked(bomb), home_help.BadHelp


def module() -> Attack:
    bomb = lzma.compress(bytes(BOMB))
    return lambda: initrd._unpacked(bomb), UnsupportedError


ATTACKS: dict[str, Callable[[], Attack]] = {
    "replica/delta.py": delta,
    "replica/working_set.py": working_set,
    "shares/node/hub/packing.py": share,
    "chunkstore/compression.py": frame_of_zstd,
    "replay/adapters/rfb.py": screen,
    "wire/http/upstream.py": service,
    "uplink/gateway/home_help.py": home,
    "images/initrd.py": module,
}


def unpackers() -> set[str]:
    """Files of the product that unpack."""
    found = set()
    for folder in ROOT.iterdir():
        if not folder.is_dir() or folder.name in NO_PRODUCT or folder.name.startswith("."):
            continue
        for path in folder.rglob("*"):
            if path.suffix in (".py", ".cc", ".h") and UNPACKS.search(path.read_text("utf-8")):
                found.add(str(path.relative_to(ROOT)))
    return found


def test_each_is_known_and_bounded() -> None:
    assert unpackers() == ATTACKS.keys() | OTHERS.keys()
    for name, (bound, where) in OTHERS.items():
        assert bound in (ROOT / name).read_text("utf-8"), name
        assert (ROOT / where).exists(), where


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_a_bomb_takes_little_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_help, "TREE_LIMIT", 4 * MIB)
    monkeypatch.setattr(initrd, "MODULE_LIMIT", 4 * MIB)
    victim, refuses = ATTACKS[name]()
    tracemalloc.start()
    try:
        with pytest.raises(refuses):
            victim()
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
