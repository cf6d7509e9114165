# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A process that is killed, and what a power cut leaves of files."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chunkstore import BlockMap, Store, StoreLocked, split_refs
from tests.chunkstore.content import noise, packs, reference, text

ROOT = Path(__file__).parents[2]

CHILD = """
import sys
from chunkstore import BlockMap, Store
from tests.chunkstore.content import noise, text

store = Store.open(sys.argv[1])
{body}
print("ready", flush=True)
sys.stdin.read()
"""


def kill_after(store: Path, body: str) -> None:
    """Run `body` with the store open in another process, and kill that."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(body=body), str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    with child.stdin, child.stdout:
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGKILL)
        child.wait()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    Store.create(folder).close()
    return folder


def test_what_was_synced_survives_kill_9(path: Path) -> None:
    kill_after(path, "store.put(noise(1, 100)); store.sync(); store.put(noise(2, 10))")
    with Store.open(path) as store:
        assert store.has(b"".join(map(reference, blocks(noise(1, 100))))) == [True] * 100
        assert store.verify().ok


def test_written_but_not_synced_records_are_found_again(path: Path) -> None:
    kill_after(path, "store.put(noise(1, 1000))")
    with Store.open(path) as store:
        assert store.stats().chunks == 1000
        report = store.verify()
        assert report.ok
        assert not report.unindexed
        store.put(noise(1, 1000))
        assert store.stats().chunks == 1000


def test_blocks_that_a_map_points_to_stay_where_they_are(path: Path, tmp_path: Path) -> None:
    """nbdkit outlives the daemon: what resolve gave it must be in the file, at that place."""
    kill_after(
        path,
        f"""
from chunkstore import TableRoot
fresh = store.put(noise(1, 63))
leaf = bytearray(4096)
leaf[:6] = b"SATT" + bytes([1, 0])
leaf[16:16 + len(fresh)] = fresh
root = TableRoot(store.put(leaf), 63 * 4096)
map = BlockMap.create({str(tmp_path / "map")!r}, 63)
assert store.resolve(root, map, 0, 63) == b""
""",
    )
    pack = packs(path / "packs")[0].read_bytes()
    with BlockMap.open(tmp_path / "map") as map:
        for number, block in enumerate(blocks(noise(1, 63))):
            entry = map.entry(number)
            assert pack[entry.offset + 64 : entry.offset + 64 + entry.length] == block
    with Store.open(path) as store:
        refs = store.put(noise(1, 63))
        assert store.stats().chunks == 64
        assert [store.get(ref) for ref in split_refs(refs)] == blocks(noise(1, 63))


def blocks(content: bytes) -> list[bytes]:
    return [content[i : i + 4096] for i in range(0, len(content), 4096)]


@pytest.mark.parametrize("tail", [b"S", b"SATR", bytes(3000), noise(9)[:5000], b"SATR" * 2000])
def test_a_torn_tail_is_cut(path: Path, tail: bytes) -> None:
    with Store.open(path) as store:
        refs = store.put(text(1, 10) + noise(1, 3))
    pack = packs(path / "packs")[0]
    size = pack.stat().st_size
    with pack.open("ab") as file:
        file.write(tail)
    with Store.open(path) as store:
        assert pack.stat().st_size == size
        assert store.has(refs) == [True] * 13
        store.put(noise(2, 3))
        assert store.verify().ok


def test_a_pack_that_is_cut_anywhere_in_what_was_not_synced(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        acknowledged = store.put(text(1, 3))
        store.sync()
        shutil.copytree(path, tmp_path / "early", ignore=shutil.ignore_patterns("LOCK"))
        store.put(text(2, 3) + noise(2))
    pack = packs(path / "packs")[0].read_bytes()
    early = packs(tmp_path / "early" / "packs")[0].stat().st_size
    counts = set()
    for size in [*range(early, len(pack), 37), len(pack)]:
        folder = tmp_path / "cut"
        shutil.copytree(tmp_path / "early", folder)
        (folder / "packs" / "000001.pack").write_bytes(pack[:size])
        with Store.open(folder) as store:
            assert store.has(acknowledged) == [True] * 3
            assert store.verify().ok
            counts.add(store.stats().chunks)
            store.put(noise(3))
        with Store.open(folder) as store:
            assert store.has(reference(noise(3))) == [True]
        shutil.rmtree(folder)
    assert counts == {3, 4, 5, 6, 7}


def test_what_follows_a_lost_sector_is_cut_off(path: Path, tmp_path: Path) -> None:
    """None of it was acknowledged, and garbage between records would look like damage for ever."""
    with Store.open(path) as store:
        store.put(noise(1))
        store.sync()
        shutil.copytree(path, tmp_path / "early", ignore=shutil.ignore_patterns("LOCK"))
        store.put(noise(2, 5))
    pack = bytearray(packs(path / "packs")[0].read_bytes())
    pack[16 + 2 * 4160 : 16 + 2 * 4160 + 512] = bytes(512)
    (tmp_path / "early" / "packs" / "000001.pack").write_bytes(pack)
    with Store.open(tmp_path / "early") as store:
        refs = b"".join(map(reference, blocks(noise(2, 5))))
        assert store.has(refs) == [True, False, False, False, False]
        assert store.verify().ok


def test_a_hole_is_no_damage_but_what_should_be_there_is_missing(path: Path) -> None:
    """Records whose place was never written, found when the index is rebuilt."""
    with Store.open(path) as store:
        refs = store.put(noise(1, 3))
    pack = packs(path / "packs")[0]
    whole = pack.read_bytes()
    pack.write_bytes(whole[: 16 + 4160] + bytes(4160) + whole[16 + 2 * 4160 :])
    with Store.open(path) as store:
        assert store.verify().bad == ()
        assert store.verify().lost == (refs[52:104],)
        store.rebuild_index()
        assert store.has(refs) == [True, False, True]
        assert store.verify().ok


@pytest.mark.parametrize("header", [b"", b"SATP", bytes(16)])
def test_a_new_pack_with_a_torn_header(path: Path, header: bytes) -> None:
    with Store.open(path) as store:
        refs = store.put(noise(1))
    (path / "packs" / "000002.pack").write_bytes(header)
    with Store.open(path) as store:
        assert store.has(refs) == [True]
        store.put(noise(2))
        assert store.verify().ok


def test_a_creation_that_was_cut_short_can_be_repeated(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    (folder / "packs").mkdir(parents=True)
    (folder / "store.json.tmp").write_text("{")
    with Store.create(folder) as store:
        refs = store.put(noise(1))
        assert store.has(refs) == [True]


def test_an_export_that_was_killed_leaves_the_old_file(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    body = f"""
root = store.import_bytes(text(1, 3000))
def stop(done, total):
    print("ready", flush=True)
    sys.stdin.read()
store.export_file(root, {str(target)!r}, progress=stop)
"""
    kill_after(path, body)
    assert target.read_text() == "old"


def test_a_second_process_is_told_who_has_the_store(path: Path) -> None:
    with Store.open(path), pytest.raises(StoreLocked) as caught:
        Store.open(path)
    assert caught.value.pid == os.getpid()
    assert str(os.getpid()) in str(caught.value)
    assert str(path) in str(caught.value)
    Store.open(path).close()


def test_the_lock_of_a_killed_process_is_no_lock(path: Path) -> None:
    kill_after(path, "pass")
    assert (path / "LOCK").read_text().strip().isdigit()
    Store.open(path).close()


def test_a_child_process_does_not_inherit_the_store(path: Path) -> None:
    """Daemons start nbdkit and QEMU, which outlive them."""
    with Store.open(path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with Store.open(path) as store:
            assert child.poll() is None
            assert store.verify().ok
    finally:
        child.kill()
        child.wait()
