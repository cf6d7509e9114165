# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keys with which surrogates were first met: nobody becomes another by damage."""

from pathlib import Path

import pytest

from client.surrogate_keys import (
    NAME,
    SurrogateKeyChanged,
    SurrogateKeys,
    SurrogateKeysDamaged,
    decode,
    encode,
)
from tests.client.signers import KEYS

GOLDEN = f"""{{
 "version": 1,
 "surrogates": [
  {{
   "surrogate": "cafe",
   "key": "{KEYS[0]}",
   "sha256": "98786e04133ce2c796ac809a106f42cf4cb0cdc687ec14669b10012858c23422"
  }}
 ]
}}
""".encode()


def test_golden_bytes() -> None:
    assert encode({"cafe": KEYS[0]}) == GOLDEN
    assert decode(GOLDEN) == {"cafe": KEYS[0]}


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
