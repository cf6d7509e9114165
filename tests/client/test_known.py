# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a client keeps of services: docs/formats/client-state.md."""

import dataclasses
import stat
from pathlib import Path

import pytest

from client.state.last_seen import (
    NOTHING_SEEN,
    KnownCopy,
    LastSeen,
    LastSeenStore,
    StateOlder,
    require_latest,
    require_newest,
)
from client.state.log_keys import LogKeys
from images import Freshness, Manifest
from replay import KeyRing, LogKey
from satchel.ids import CheckpointId, OperationNumber
from tests.images.test_manifest import manifest as plain

KEY = bytes(range(32))


def test_golden_bytes(tmp_path: Path) -> None:
    LastSeenStore(tmp_path / "latest", LastSeen.decode).put(
        "speech", LastSeen(OperationNumber(157), 12, "5f" * 32)
    )
    content = b"157 12 " + b"5f" * 32 + b"\n"
    assert (tmp_path / "latest" / "speech").read_bytes() == content
    LastSeenStore(tmp_path / "latest", LastSeen.decode).put("notes", LastSeen(OperationNumber(157)))
    assert (tmp_path / "latest" / "notes").read_bytes() == bytes.fromhex("31 35 37 0a")
    copies = LastSeenStore(tmp_path / "copies", KnownCopy.decode)
    copies.put("kept", KnownCopy(CheckpointId("0f3c9a5be1d27c44"), led_on=True))
    assert (tmp_path / "copies" / "kept").read_bytes() == b"0f3c9a5be1d27c44+\n"
    copies.put("kept", KnownCopy(CheckpointId("0f3c9a5be1d27c44"), led_on=False))
    assert (tmp_path / "copies" / "kept").read_bytes() == b"0f3c9a5be1d27c44\n"
    keys = KeyRing((LogKey(1, KEY, DAYS[0]),))
    LogKeys(tmp_path / "keys").keep("notes", keys)
    kept = tmp_path / "keys" / "notes"
    assert kept.read_bytes() == keys.to_bytes()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_the_newest_is_known(tmp_path: Path) -> None:
    latest = LastSeenStore(tmp_path / "latest", LastSeen.decode)
    assert latest.get("notes") is None
    for number in (5, 7, 7, 3):
        known = LastSeen(OperationNumber(number), 2 * number, f"{number:064x}")
        latest.put("notes", known)
        assert latest.get("notes") == known
    assert latest.get("speech") is None


def manifest(created: str, *, days: int = 0, before: Manifest | None = None) -> Manifest:
    freshness = Freshness.after(before, created, days)
    return dataclasses.replace(plain(), created=created, freshness=freshness)


DAYS = [f"2026-01-{day:02}T00:00:00.000000+00:00" for day in range(1, 29)]
LAST = OperationNumber(7)


def test_a_checkpoint_that_has_expired_is_refused() -> None:
    checkpoint = manifest(DAYS[0], days=10)
    require_latest(NOTHING_SEEN, checkpoint, LAST, DAYS[10])
    with pytest.raises(StateOlder, match="has expired"):
        require_latest(NOTHING_SEEN, checkpoint, LAST, DAYS[11])
    require_latest(NOTHING_SEEN, manifest(DAYS[0]), LAST, DAYS[27])  # it never does
    require_latest(NOTHING_SEEN, plain(), LAST, DAYS[27])


def test_a_checkpoint_without_an_end_expires_as_well() -> None:
    """It is of version 2 or 3, and was made on the second of January."""
    require_latest(NOTHING_SEEN, plain(), LAST, "2026-07-01T00:00:00.000000+00:00")
    with pytest.raises(StateOlder, match="has expired"):
        require_latest(NOTHING_SEEN, plain(), LAST, "2026-07-02T00:00:00.000000+00:00")


def test_a_copy_of_a_carried_service_expires_as_well() -> None:
    old = manifest("2020-01-01T00:00:00.000000+00:00", days=10)
    require_newest(None, old, old.id)
    with pytest.raises(StateOlder, match="it was good until 2020-01-11"):
        require_newest(None, old, "")


def test_another_line_of_checkpoints_is_refused() -> None:
    first = manifest(DAYS[0])
    second, other = manifest(DAYS[1], before=first), manifest(DAYS[2], before=first)
    third, fourth = manifest(DAYS[3], before=second), manifest(DAYS[4], before=other)
    known = LastSeen(LAST).with_checkpoint(second)
    assert (known.epoch, known.digest) == (2, second.digest)
    for same in (first, second, third, manifest(DAYS[5], before=third)):
        require_latest(known, same, LAST, DAYS[6])
    for another in (other, fourth):
        with pytest.raises(StateOlder, match=f"another line.*--accept-older {another.id}"):
            require_latest(known, another, LAST, DAYS[6])
    assert known.with_checkpoint(first) == known
    with pytest.raises(StateOlder, match="ends with operation 6"):
        require_latest(known, second, OperationNumber(6), DAYS[6])


DAMAGED = [b"", b"7", b"-7\n", b"7\n7\n", b"1" * 20 + b"\n", b"\xff\n", b"7 1\n", b"7 1 5f\n"]


@pytest.mark.parametrize("damaged", DAMAGED)
def test_what_is_damaged_is_not_there(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "notes").write_bytes(damaged)
    assert LastSeenStore(tmp_path, LastSeen.decode).get("notes") is None
    assert LogKeys(tmp_path).get("notes") is None
    assert LastSeenStore(tmp_path, KnownCopy.decode).get("notes") is None


def test_the_key_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "notes").write_bytes(KEY)
    keys = LogKeys(tmp_path).get("notes")
    assert keys
    assert (keys.current.epoch, keys.current.key) == (1, KEY)
    (tmp_path / "notes").write_bytes(KEY[:7])
    assert LogKeys(tmp_path).get("notes") is None
