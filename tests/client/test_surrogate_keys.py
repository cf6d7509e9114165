# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keys with which surrogates were first met: nobody becomes another by damage."""

from pathlib import Path

import pytest

from client.state.surrogate_keys import (
    NAME,
    PROOFS_LIMIT,
    PinnedKey,
    SurrogateBanned,
    SurrogateKeyChanged,
    SurrogateKeys,
    SurrogateKeysDamaged,
    decode,
    encode,
)
from satchel.errors import NotFoundError
from tests.client.signers import KEYS
from wire import Peer, fingerprint, known_hosts_line

GOLDEN = f"""{{
 "version": 1,
 "surrogates": [
  {{
   "surrogate": "cafe",
   "key": "{KEYS[0]}",
   "proofs": 0,
   "hosts": [],
   "sha256": "9c86d5d0da607e13356415b106e1ee4e616368f33701ec9f396c86c9ab2bff31"
  }}
 ]
}}
""".encode()


def test_golden_bytes() -> None:
    assert encode({"cafe": PinnedKey(KEYS[0])}) == GOLDEN
    assert decode(GOLDEN) == {"cafe": PinnedKey(KEYS[0])}
    with_hosts = {"cafe": PinnedKey(KEYS[0], 2, (fingerprint(KEYS[1]),))}
    assert decode(encode(with_hosts)) == with_hosts


def test_a_key_is_pinned_at_the_first_time(tmp_path: Path) -> None:
    keys = SurrogateKeys(tmp_path)
    assert keys.admit("old", "") is None
    signer = keys.admit("cafe", f"{KEYS[0]} a comment")
    assert signer is not None and signer.public == KEYS[0]
    assert (tmp_path / NAME).read_bytes() == GOLDEN
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    again = SurrogateKeys(tmp_path)
    for other in (KEYS[1], ""):
        with pytest.raises(SurrogateKeyChanged, match="not the surrogate that it was"):
            again.admit("cafe", other)
    assert again.admit("cafe", KEYS[0]) is not None
    assert again.admit("old", KEYS[1]) is not None  # it signs from now on


def test_each_damaged_byte_is_noticed() -> None:
    for place in range(len(GOLDEN)):
        damaged = GOLDEN[:place] + bytes([GOLDEN[place] ^ 4]) + GOLDEN[place + 1 :]
        with pytest.raises(SurrogateKeysDamaged):
            decode(damaged)


def test_a_damaged_file_admits_nobody(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(GOLDEN[:-3])
    with pytest.raises(SurrogateKeysDamaged, match=NAME):
        SurrogateKeys(tmp_path).admit("cafe", KEYS[0])


def test_a_surrogate_is_banned_by_its_name_its_key_and_its_host_key(tmp_path: Path) -> None:
    known_hosts, host_key = tmp_path / "known_hosts", KEYS[2]
    lines = [
        known_hosts_line("cafe.example", 22, host_key),
        known_hosts_line("corner.example", 2222, host_key),
        known_hosts_line("inn.example", 22, KEYS[1]),
        f"@cert-authority park.example {host_key}",
    ]
    known_hosts.write_text("\n".join(lines) + "\n")

    def peer(host: str, port: int = 22) -> Peer:
        return Peer(f"guest@{host}", port=port, known_hosts=known_hosts)

    keys = SurrogateKeys(tmp_path)
    with pytest.raises(NotFoundError):
        keys.proved("cafe", peer("cafe.example"))
    keys.admit("cafe", KEYS[0])
    for count in range(1, PROOFS_LIMIT):
        assert not keys.proved("cafe", peer("cafe.example")).banned
        assert keys.admit("cafe", KEYS[0]) is not None, count
    assert keys.proved("cafe", peer("cafe.example")).banned
    again = SurrogateKeys(tmp_path)
    with pytest.raises(SurrogateBanned, match="cafe is banned"):
        again.require_none_banned("cafe", peer("elsewhere.example"))
    with pytest.raises(SurrogateBanned, match=r"corner is banned.*as cafe"):
        again.require_none_banned("corner", peer("corner.example", 2222))
    with pytest.raises(SurrogateBanned):
        again.admit("renamed", KEYS[0])
    again.require_none_banned("inn", peer("inn.example"))
    again.require_none_banned("park", peer("park.example"))  # the site's, and not one host's
    assert again.forget("cafe") and not again.forget("cafe")
    again.require_none_banned("corner", peer("corner.example", 2222))
