# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The recovery phrase of a sealed medium: nine words that a person writes down and types again.

Eight words are 16 random bytes, and the ninth is a check that notices a slip of the pen. Each word
stands for 16 bits as in proquints: a consonant for 4 bits, a vowel for 2. The bytes make the secret
key of an age identity (docs/formats/sealed.md). The phrase of an older medium is the identity.
"""

from __future__ import annotations

import hashlib
import secrets

from satchel.errors import UsageError

CONSONANTS, VOWELS = "bdfghjklmnprstvz", "aiou"
SECRET_BYTES = 16
IDENTITY = "AGE-SECRET-KEY-"

_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


class PhraseInvalid(UsageError):
    """A text that no recovery phrase can be."""

    def __init__(self, why: str) -> None:
        super().__init__("this is not a recovery phrase", why=why, fix="compare it with the paper")


def new_phrase() -> str:
    """Return a phrase of random words."""
    return phrase_of(secrets.token_bytes(SECRET_BYTES))


def phrase_of(secret: bytes) -> str:
    """Return the words of 16 bytes, and the check."""
    data = secret + _check(secret)
    return " ".join(_word(int.from_bytes(data[at : at + 2])) for at in range(0, len(data), 2))


def identity_of(phrase: str) -> str:
    """Return the age identity of a phrase. Raises PhraseInvalid."""
    if phrase.strip().upper().startswith(IDENTITY):
        return phrase.strip().upper()
    words = phrase.lower().replace("-", " ").split()
    data = b"".join(_bits(word).to_bytes(2) for word in words)
    if len(data) != SECRET_BYTES + 2:
        raise PhraseInvalid(f"it has {len(words)} words, and {SECRET_BYTES // 2 + 1} are right")
    secret, check = data[:SECRET_BYTES], data[SECRET_BYTES:]
    if check != _check(secret):
        raise PhraseInvalid("a word is wrong: the last one does not fit the others")
    return _bech32(hashlib.sha256(b"satchel phrase 1 key" + secret).digest())


def _check(secret: bytes) -> bytes:
    return hashlib.sha256(b"satchel phrase 1 check" + secret).digest()[:2]


def _word(bits: int) -> str:
    c, v = CONSONANTS, VOWELS
    return c[bits >> 12] + v[bits >> 10 & 3] + c[bits >> 6 & 15] + v[bits >> 4 & 3] + c[bits & 15]


def _bits(word: str) -> int:
    sets = (CONSONANTS, VOWELS, CONSONANTS, VOWELS, CONSONANTS)
    if len(word) != len(sets) or any(c not in some for c, some in zip(word, sets, strict=True)):
        raise PhraseInvalid(f"{word[:20]!r} is none of its words, such as {_word(0x1234)}")
    bits = 0
    for letter, some in zip(word, sets, strict=True):
        bits = bits * len(some) + some.index(letter)
    return bits


def _bech32(key: bytes) -> str:
    """Return 32 bytes as age writes a secret key: Bech32 (BIP 173)."""
    human = IDENTITY.lower()
    bits = int.from_bytes(key) << 4  # 256 bits are 51.2 groups of 5
    data = [bits >> (5 * (51 - at)) & 31 for at in range(52)]
    expanded = [ord(c) >> 5 for c in human] + [0] + [ord(c) & 31 for c in human]
    sum_ = _polymod([*expanded, *data, *[0] * 6]) ^ 1
    data += [sum_ >> (5 * (5 - at)) & 31 for at in range(6)]
    return (human + "1" + "".join(_BECH32[each] for each in data)).upper()


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top, check = check >> 25, (check & 0x1FFFFFF) << 5 ^ value
        for at, generator in enumerate(_GENERATOR):
            check ^= generator if top >> at & 1 else 0
    return check
