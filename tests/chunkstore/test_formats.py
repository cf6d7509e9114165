# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Golden bytes: what a reader of another version must be able to rely on."""

import hashlib
import struct
import time
import uuid
from pathlib import Path

from chunkstore import BlockMap, Store, dump, split_refs
from chunkstore._native._core import checksum64
from media import Media
from satchel.ids import BLOCK_SIZE
from tests.chunkstore.content import commit_volumes, noise, packs, reference, text

BLOCK = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(128))
"""Does not compress, so that its record does not depend on the version of zstd."""

FRAME = bytes.fromhex(
    "53415446 02 02 2500 bbe22e34a1194c92"
    "001805 0100a8 736174636865 6c0a 757272 6f67617465203132 3334 0200ef77f18ffdfb970b"
)

NAME = "648e306ffab29f60d5b00ae2a5961331c422710c"
RECORD_CHECKSUM = "4fbf02de"
ROOT = {
    "size": 8202,
    "sha1": "ace8b6756ee596b75dcef809a2c500938b55d705",
    "sha256": "8ef2da47c8cbae7e1aecc5c7ac7a291b590c9b080f66be07788ee64211420f58",
}


def test_pack(store: Store) -> None:
    store.put(BLOCK)
    store.sync()
    data = packs(store.packs_path)[0].read_bytes()
    assert data[:16] == bytes.fromhex("5341545041434b00 02000000 00000000")
    assert data[16:24] == bytes.fromhex("53415452 00 00 0010")
    assert data[24:76] == reference(BLOCK)
    assert data[24:44].hex() == NAME
    assert data[76:80].hex() == RECORD_CHECKSUM
    assert data[80:] == BLOCK


def test_compressed_record(store: Store) -> None:
    record = store.records(store.put(text(1)))
    assert record[:6] == bytes.fromhex("53415452 01 00")
    (length,) = struct.unpack_from("<H", record, 6)
    assert len(record) == 64 + length < 100
    assert record[64:68] == bytes.fromhex("28b52ffd")  # the magic of a zstd frame
    (checksum,) = struct.unpack_from("<I", record, 60)
    assert checksum == checksum64(record[:60] + record[64:]) & 0xFFFFFFFF


def test_frame(tmp_path: Path) -> None:
    """The example of docs/formats/pack.md, whatever a newer zstd would make of the two blocks."""
    (tmp_path / "frame").write_bytes(FRAME)
    (frame,) = dump(tmp_path / "frame")
    first = hashlib.sha1(b"satchel\n" * 512).hexdigest()
    assert (frame.kind, frame.size) == ("frame", 53)
    assert frame.text == f"2 chunks {first} dc460ca7156eff76ff8ba52889b3f974305e9917"


def test_table_page(store: Store) -> None:
    root = store.import_bytes(BLOCK + bytes(BLOCK_SIZE) + BLOCK[:10])
    page = store.get(root.ref)
    last = BLOCK[:10].ljust(BLOCK_SIZE, b"\0")
    assert page[:16] == bytes.fromhex("53415454 01 00 00000000000000000000")
    assert page[16:68] == reference(BLOCK)
    assert page[68:120] == bytes(52)
    assert page[120:172] == reference(last)
    assert page[172:] == bytes(BLOCK_SIZE - 172)
    assert root.to_json() == ROOT


def test_inner_table_page(store: Store) -> None:
    root = store.import_bytes(bytes(64 * BLOCK_SIZE) + BLOCK)
    page = store.get(root.ref)
    assert page[:16] == bytes.fromhex("53415454 01 01 00000000000000000000")
    assert page[16:68] == bytes(52)
    (leaf,) = split_refs(page[68:120])
    assert store.get(leaf)[16:68] == reference(BLOCK)
    assert page[120:] == bytes(BLOCK_SIZE - 120)


def test_media_index(store: Store, media: Media) -> None:
    refs = sorted(split_refs(store.put(BLOCK + noise(1))))
    media.add(store, b"".join(refs))
    data = (media.root / "satchel/packs/000001.idx").read_bytes()
    size = 16 + 2 * 4160
    assert data[:32] == bytes.fromhex("5341544944580000 01000000 02000000") + struct.pack(
        "<QQ", size, 0
    )
    assert data[32:92] == refs[0] + struct.pack("<IHH", 16, 4096, 0)
    assert data[92:152] == refs[1] + struct.pack("<IHH", 16 + 4160, 4096, 0)
    assert data[152:] == struct.pack("<Q", checksum64(data[:152]))
    assert (media.root / "satchel/packs/000001.pack").stat().st_size == size


def test_media_commit(store: Store, media: Media) -> None:
    root = store.import_bytes(BLOCK)
    (checkpoint,) = commit_volumes(store, media, {"notes": root})
    data = (media.root / "satchel/commits/000001.commit").read_bytes()
    assert data[:16] == bytes.fromhex("53415447454e0000 01000000 00000000")
    assert data[16:32] == uuid.UUID(media.uuid).bytes
    number, created, packs_, files, reserved = struct.unpack_from("<QQIIQ", data, 32)
    assert (number, packs_, files, reserved) == (1, 1, 2, 0)
    assert 0 <= time.time_ns() - created < 3600 * 10**9
    pack = media.root / "satchel/packs/000001.pack"
    assert data[64:80] == struct.pack("<IIQ", 1, 2, pack.stat().st_size)
    at = 80
    for path in media.paths(checkpoint):
        content = (media.root / "satchel" / path).read_bytes()
        head = struct.pack("<IHH", len(content), 0, len(path)) + hashlib.sha256(content).digest()
        assert data[at : at + 40 + len(path)] == head + path.encode()
        at += 40 + len(path)
    assert media.paths(checkpoint)[1] == "checkpoints/notes-0000000000000001.sig"
    assert data[at:] == struct.pack("<Q", checksum64(data[:at]))


def test_descriptions(store: Store, media: Media) -> None:
    assert (store.path / "store.json").read_text() == '{"format": "satchel-store", "version": 3}\n'
    assert (media.root / "satchel/media.json").read_text() == (
        f'{{"format": "satchel-media", "version": 3, "uuid": "{media.uuid}"}}\n'
    )


def test_block_map(store: Store, tmp_path: Path) -> None:
    root = store.import_bytes(BLOCK + bytes(BLOCK_SIZE) + BLOCK + BLOCK)
    with BlockMap.create(tmp_path / "map", 4) as map:
        store.resolve(root, map, 0, 3)
        map.mark_dirty(2)
        map.foresee(3)
        map.touch(3)
        map.touch(1)
        entry = map.entry(0)
    data = (tmp_path / "map").read_bytes()
    assert data[:16] == b"SATBMAP\0" + struct.pack("<Q", 4)
    assert data[16:4096] == struct.pack("<Q", 2) + bytes(4072)
    packed = 2 | entry.length << 2 | entry.pack << 15 | entry.offset << 32
    assert struct.unpack("<4Q", data[4096:4128]) == (packed, 1, 3, 0)
    assert struct.unpack("<4I", data[4128:]) == (0, 2, 0, 1 << 31 | 1)
    assert (entry.length, entry.pack, entry.offset) == (4096, 1, 16)
