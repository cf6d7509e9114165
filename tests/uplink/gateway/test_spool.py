# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The spool in every state in which a crash can leave it, and with bytes that have changed."""

import itertools
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from satchel.errors import ConflictError, IntegrityError, StateError, UnsupportedError
from uplink.gateway.spool import Spool, SpoolFull, SpoolInUse
from uplink.policy import Condition, Upload, UploadState

LIMIT = 1 << 20
HEAD = bytes.fromhex("534154 55504c4e 4b 01000000 00000000".replace(" ", ""))


def hold(spool: Spool, path: str, content: bytes, now: float = 1000.0) -> Upload:
    with spool.receive(len(content)) as incoming:
        incoming.write(content)
        return spool.hold(
            incoming,
            service="cloud",
            account="user:me",
            path=path,
            headers=(("Content-Type", "text/plain"),),
            condition=Condition(),
            now=now,
        )


def contents(spool: Spool) -> dict[str, bytes]:
    return {upload.path: spool.body(upload).read_bytes() for upload in spool.pending()}


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool", LIMIT)
    yield made
    made.close()


def test_golden_bytes(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s", LIMIT)
    upload = hold(spool, "/a", b"abcd")
    spool.close()
    data = (tmp_path / "s" / "uploads").read_bytes()
    assert data[:16] == HEAD
    assert data[24:32] == b"\x01\0\0\0\0\0\0\0"
    assert data[32:] == (
        b'{"number": 1, "service": "cloud", "account": "user:me", "path": "/a", "body": "'
        + upload.body.encode()
        + b'", "size": 4, "sha256": "'
        b"88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589"
        b'", "headers": [["Content-Type", "text/plain"]], "condition": {"etag": ""}, "accepted": '
        b'1000.0, "state": "held", "why": "", "copy": "", "tries": 0}'
    )
    assert (tmp_path / "s" / "bodies" / upload.body).read_bytes() == b"abcd"


def test_a_newer_one_takes_the_place_and_keeps_the_condition(spool: Spool) -> None:
    first = hold(spool, "/a", b"first")
    second = hold(spool, "/a", b"second")
    assert second.number == first.number
    assert contents(spool) == {"/a": b"second"}
    assert not spool.body(first).exists()


def test_what_is_on_its_way_is_not_replaced(spool: Spool) -> None:
    upload = hold(spool, "/a", b"first")
    spool.move(upload.number, UploadState.FLUSHING)
    with pytest.raises(ConflictError):
        hold(spool, "/a", b"second")
    assert contents(spool) == {"/a": b"first"}


def test_misuse_of_states_changes_nothing(spool: Spool) -> None:
    upload = hold(spool, "/a", b"first")
    with pytest.raises(StateError):
        spool.move(upload.number, UploadState.CONFIRMED)
    assert spool.get(upload.number).state is UploadState.HELD
    with pytest.raises(ConflictError):
        spool.forget(upload.number)


def test_a_body_that_did_not_come_whole_leaves_nothing(spool: Spool, tmp_path: Path) -> None:
    with pytest.raises(KeyError), spool.receive(10) as incoming:
        incoming.write(b"12345")
        raise KeyError
    assert spool.uploads() == []
    assert list((tmp_path / "spool" / "bodies").iterdir()) == []


def test_room_is_bounded_and_comes_back(spool: Spool) -> None:
    first = hold(spool, "/a", bytes(LIMIT - 10))
    with pytest.raises(SpoolFull):
        hold(spool, "/b", bytes(11))
    for state in (UploadState.FLUSHING, UploadState.CONFIRMED):
        spool.move(first.number, state)
    hold(spool, "/b", bytes(11))


def test_one_daemon_has_it(spool: Spool, tmp_path: Path) -> None:
    with pytest.raises(SpoolInUse):
        Spool(tmp_path / "spool", LIMIT)


def test_many_uploads_do_not_make_the_file_grow_for_ever(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uplink.gateway.spool.REWRITE_BYTES", 40_000)
    monkeypatch.setattr("uplink.gateway.spool.KEPT_DONE", 10)
    kept = hold(spool, "/kept", b"kept")
    for number in range(60):
        upload = hold(spool, f"/{number}", b"x")
        spool.move(upload.number, UploadState.FLUSHING)
        spool.move(upload.number, UploadState.CONFIRMED)
    assert (tmp_path / "spool" / "uploads").stat().st_size < 50_000
    assert spool.get(kept.number) == kept
    assert contents(spool) == {"/kept": b"kept"}


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    """No upload is another one than it was: the records end before the byte, or nothing opens."""
    spool = Spool(tmp_path / "s", LIMIT)
    uploads = [hold(spool, f"/{number}", bytes([number]) * 9) for number in range(3)]
    spool.close()
    good = (tmp_path / "s" / "uploads").read_bytes()
    for at in [*range(500), *range(500, len(good), 11)]:
        bad = bytearray(good)
        bad[at] ^= 0x41
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "s", copy)
        (copy / "uploads").write_bytes(bad)
        try:
            opened = Spool(copy, LIMIT)
        except (IntegrityError, UnsupportedError) as error:
            assert at < 12, error
        else:
            found = opened.uploads()
            assert found == uploads[: len(found)]
            assert at < 16 or (copy / "uploads.damaged").exists()
            assert at >= 16 or found == uploads
            opened.close()
        shutil.rmtree(copy)


LIVES = 4
STEPS = 14


@pytest.mark.parametrize("seed", range(LIVES))
def test_no_acknowledged_upload_is_lost_in_any_crash_state(tmp_path: Path, seed: int) -> None:
    """After each step of a life, and with the next one done in part: the record cut anywhere, the
    body of any length, the old body gone or not."""
    assert _crash_everywhere(tmp_path, seed) > 100


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(8))
def test_no_acknowledged_upload_is_lost_in_20000_crash_states(tmp_path: Path, part: int) -> None:
    states = 0
    for seed in itertools.count(1000 * part + LIVES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        states += _crash_everywhere(folder, seed)
        shutil.rmtree(folder)
        if states >= 20_000 / 8:
            return


def _crash_everywhere(tmp_path: Path, seed: int) -> int:
    """How many states there were in one life."""
    states = 0
    for before, after, promised in _life(tmp_path / "life", random.Random(seed)):
        for number, crashed in enumerate(_crash_states(tmp_path, before, after)):
            opened = Spool(crashed, LIMIT)
            found = contents(opened)
            allowed = promised if number else promised[:1]
            assert any(found == each for each in allowed), (found, allowed)
            assert all(each.state is not UploadState.FLUSHING for each in opened.uploads())
            named = {upload.body for upload in opened.uploads()}
            assert {path.name for path in (crashed / "bodies").iterdir()} <= named
            opened.close()
            shutil.rmtree(crashed)
            states += 1
    return states


def _life(folder: Path, draw: random.Random) -> Iterator[tuple[Path, Path, list[dict[str, bytes]]]]:
    """Folder before a step, folder after it, and what may be there: as before, or as after."""
    spool = Spool(folder, LIMIT)
    expected: dict[str, bytes] = {}
    for step in range(STEPS):
        before = folder.with_name(f"before-{step}")
        shutil.copytree(folder, before)
        was = dict(expected)
        pending = spool.pending()
        flushing = [each for each in pending if each.state is UploadState.FLUSHING]
        held = [each for each in pending if each.state is UploadState.HELD]
        kind = draw.choice(("hold", "hold", "flush", "settle"))
        if kind == "settle" and flushing:
            upload = draw.choice(flushing)
            state = draw.choice((UploadState.CONFIRMED, UploadState.CONFLICT, UploadState.HELD))
            spool.move(upload.number, state)
            if state is not UploadState.HELD:
                del expected[upload.path]
        elif kind == "flush" and held:
            spool.move(draw.choice(held).number, UploadState.FLUSHING)
        else:
            paths = {f"/{number}" for number in range(4)} - {each.path for each in flushing}
            if not paths:
                continue
            path, content = draw.choice(sorted(paths)), draw.randbytes(draw.randrange(1, 40))
            hold(spool, path, content)
            expected[path] = content
        yield before, folder, [was, dict(expected)]
    spool.close()


def _crash_states(tmp_path: Path, before: Path, after: Path) -> Iterator[Path]:
    """The state before the step is the first one."""
    old, new = (path / "uploads" for path in (before, after))
    added = new.read_bytes()[old.stat().st_size :]
    bodies = {path.name for path in (after / "bodies").iterdir()}
    fresh = sorted(bodies - {path.name for path in (before / "bodies").iterdir()})
    cuts = sorted({0, 1, 7, len(added) // 2, len(added) - 1})
    for cut in cuts:
        for length in (0, 1, None):
            crashed = tmp_path / "crashed"
            shutil.copytree(before, crashed)
            with (crashed / "uploads").open("ab") as file:
                file.write(added[:cut])
            for name in fresh:
                content = (after / "bodies" / name).read_bytes()
                (crashed / "bodies" / name).write_bytes(content[:length])
            yield crashed
    crashed = tmp_path / "crashed"  # the record is whole, and no body has gone yet
    shutil.copytree(before, crashed)
    for name in fresh:
        shutil.copy(after / "bodies" / name, crashed / "bodies" / name)
    with (crashed / "uploads").open("ab") as file:
        file.write(added)
    yield crashed


def test_a_body_that_is_missing_is_told_of(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s", LIMIT)
    upload = hold(spool, "/a", b"abcd")
    spool.close()
    (tmp_path / "s" / "bodies" / upload.body).unlink()
    opened = Spool(tmp_path / "s", LIMIT)
    assert [each.state for each in opened.uploads()] == [UploadState.FAILED]
    assert "not here" in opened.uploads()[0].why
    opened.close()
