# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""docs/formats/sealed.md, by what stands there: by other programs, and bytes that never change."""

import hashlib
import hmac
import os
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

from chunkstore import MediaDamaged, Store
from media import Media, MediaCheckpoint, SealKeys, media_uuid, new_seal
from media.phrase import PhraseInvalid, identity_of, phrase_of
from media.seal import NewSeal, Seal
from replay import Operation, secrecy
from satchel.ids import BLOCK_SIZE, CheckpointId, OperationNumber
from tests.chunkstore.content import noise
from tests.needs import requires

KEY = bytes(range(32))
BLOCK, NONCE, CONTENT = 4096, 12, 4068
MANIFEST = b"a manifest"
CHECKPOINT = CheckpointId("0123456789abcdef")
BLOCK_DIGEST = "e67b5d3f56e8f525be449a060f5bf76916b471e981dde5521914e3bd1f65ab3c"
RECORD_DIGEST = "f2e747d52848bafcfd77a8b78d74d5c62928bb724dfcc39bfeea0e63fca5ca5d"
"""SHA-256 of what a nonce of zeros gives."""


def derived(purpose: str) -> bytes:
    return hmac.digest(KEY, b"satchel medium 1: " + purpose.encode(), "sha256")


def sealed_block(number: int, name: str, content: bytes, nonce: bytes) -> bytes:
    bound = number.to_bytes(8, "little") + name.encode()
    return nonce + AESGCM(derived("content")).encrypt(nonce, content, bound)


def opened(path: Path) -> bytes:
    """The content of a sealed file, by the page alone."""
    data, content = path.read_bytes(), b""
    assert len(data) % BLOCK == 0
    for number in range(len(data) // BLOCK):
        block = data[number * BLOCK : (number + 1) * BLOCK]
        bound = number.to_bytes(8, "little") + path.name.encode()
        content += AESGCM(derived("content")).decrypt(block[:NONCE], block[NONCE:], bound)
    return content[: int.from_bytes(content[-8:], "little")]


A_UUID = "5f5b8f0a-8a52-4e2c-9a0b-0d5c5a1f7e11"


def stick(folder: Path, *, sealed: bool = True) -> tuple[Path, SealKeys]:
    """A medium under KEY with a checkpoint of two blocks."""
    root, keys = folder / "stick", SealKeys(folder / "keys")
    root.mkdir(parents=True)
    store = Store.create(folder / "store")
    (folder / "volume").write_bytes(noise(1) + noise(2)[: BLOCK_SIZE // 2])
    table = store.import_file(folder / "volume")
    with Media.init(
        root, NewSeal(Seal((KEY,)), b"", "", A_UUID) if sealed else None, keys
    ) as media:
        media.add(store, store.reachable([table]))
        media.put_checkpoint("notes", CHECKPOINT, MANIFEST, b"signature")
        media.commit([MediaCheckpoint("notes", CHECKPOINT, (), whole=True)], [table])
    return root, keys


def test_keys_and_names_stay_what_they_are() -> None:
    seal = Seal((KEY,))
    assert seal.content.hex() == "897bf006b14a26daaa3619683da980a0cb928d6fa4dea5bbffcaeb21f5b02ac9"
    assert seal.content == derived("content")
    assert seal.log_secret("notes") == derived("log of notes")
    assert seal.log_name("notes") == "1a52e60f8e9713edee85b616c3e750cb"
    name = "4ca19ac0ec6cdafc38fa5d17bb945d8e4c18801c7318628f3098bceb854ba4051304999b23a0b9b7"
    assert seal.file_names("notes", CHECKPOINT) == (name,)
    both = AESSIV(derived("names, first") + derived("names, second"))
    plain = bytes.fromhex(CHECKPOINT) + b"notes".ljust(16, b"\0")
    assert both.encrypt(plain, None).hex() == name
    assert seal.named_by(name) == ("notes", CHECKPOINT)
    for at in range(len(name)):
        changed = name[:at] + ("0" if name[at] != "0" else "1") + name[at + 1 :]
        assert seal.named_by(changed) is None


def test_an_operation_in_a_log_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    secret, operation = derived("log of notes"), Operation(OperationNumber(5), 10**18, 7, b"POST /")
    monkeypatch.setattr("secrets.token_bytes", bytes)  # a nonce of zeros
    kept = secrecy.conceal(secret, operation)
    assert hashlib.sha256(kept.encode()).hexdigest() == RECORD_DIGEST
    record = operation.encode()
    plain = (len(record).to_bytes(4, "little") + record).ljust(256, b"\0")
    nonce = bytes(NONCE)
    sealed = AESGCM(secret).encrypt(nonce, plain, (5).to_bytes(8, "little"))
    assert kept == Operation(OperationNumber(5), 0, 0, nonce + sealed)
    assert secrecy.reveal(secret, kept) == operation
    for at in range(len(kept.payload)):
        changed = bytearray(kept.payload)
        changed[at] ^= 1
        assert not secrecy.opens(secret, Operation(kept.number, 0, 0, bytes(changed)))
    assert not secrecy.opens(secret, Operation(OperationNumber(6), 0, 0, kept.payload))


def test_files_have_what_those_of_a_medium_in_clear_have(tmp_path: Path) -> None:
    root, _ = stick(tmp_path / "sealed")
    clear, _ = stick(tmp_path / "clear", sealed=False)
    for kind in ("packs/*.pack", "packs/*.idx", "checkpoints/*.json", "checkpoints/*.sig"):
        (ours,), (theirs,) = ((each / "satchel").glob(kind) for each in (root, clear))
        assert len(opened(ours)) == theirs.stat().st_size
        if "checkpoints" in kind:
            assert opened(ours) == theirs.read_bytes()
        else:
            assert opened(ours)[:4] == theirs.read_bytes()[:4]


def test_a_block_stays_what_it_is(tmp_path: Path) -> None:
    """One that this test made is read as a manifest."""
    root, keys = stick(tmp_path)
    name = f"{Seal((KEY,)).file_names('notes', CHECKPOINT)[0]}.json"
    content = MANIFEST.ljust(CONTENT - 8, b"\0") + len(MANIFEST).to_bytes(8, "little")
    block = sealed_block(0, name, content, bytes(NONCE))
    assert len(block) == BLOCK
    assert hashlib.sha256(block).hexdigest() == BLOCK_DIGEST
    (root / "satchel/checkpoints" / name).write_bytes(block)
    with Media.open(root, keys) as media:
        (found,) = media.checkpoints("notes")
        assert media.signed(found) == (MANIFEST, b"signature")


@requires("age", "ssh-keygen")
def test_key_age_is_opened_by_age(tmp_path: Path) -> None:
    private, phrase = tmp_path / "id_ed25519", tmp_path / "phrase"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(private)]
    subprocess.run(make, check=True)
    seal = new_seal([private.with_suffix(".pub").read_text()], sign=lambda said: b"signed " + said)
    phrase.write_text(identity_of(seal.phrase))
    (tmp_path / "key.age").write_bytes(seal.wrapped)
    for identity in (private, phrase):
        argv = ["age", "-d", "-i", str(identity), str(tmp_path / "key.age")]
        opened = subprocess.run(argv, check=True, capture_output=True).stdout
        (key,) = seal.seal.keys
        digest = hashlib.sha256(key).hexdigest()
        statement = f"satchel media key 1\n{seal.uuid}\n{digest}\n"
        assert opened == key + b"signed " + statement.encode()


def test_a_recovery_phrase_is_words_with_a_check() -> None:
    phrase = phrase_of(bytes(range(16)))
    assert phrase == "babad bamag bibaj bimal boban bomar bubat bumaz bonak"
    secret = "AGE-SECRET-KEY-1YPWX4FT804EFKHY4GHDAKFJSAXXAF6NVUCQNHA362LRCJJ8KN7MQW7X6UC"
    assert identity_of(f" {phrase.upper().replace(' ', '-')}\n") == secret
    assert identity_of(secret.lower()) == secret
    for wrong in (phrase.replace("boban", "bobab"), phrase[6:], phrase.replace("bumaz", "bumax")):
        with pytest.raises(PhraseInvalid, match="this is not a recovery phrase"):
            identity_of(wrong)


@requires("age", "age-keygen")
def test_a_key_that_age_wrapped_is_opened(tmp_path: Path) -> None:
    phrase = subprocess.run(["age-keygen"], check=True, capture_output=True, text=True).stdout
    public = next(line for line in phrase.splitlines() if "public key" in line).split()[-1]
    argv = ["age", "-r", public]
    wrapped = subprocess.run(argv, input=KEY, check=True, capture_output=True).stdout
    root, _ = stick(tmp_path)
    (root / "satchel/key.age").write_bytes(wrapped)
    paper = SealKeys(tmp_path / "paper")
    paper.unlock(root, media_uuid(root), phrase.splitlines()[-1])
    with Media.open(root, paper) as media:
        assert media.checkpoints("notes")


@pytest.mark.parametrize("kind", ["packs/*.pack", "checkpoints/*.json"])
def test_every_byte_that_was_changed_is_found(tmp_path: Path, kind: str) -> None:
    root, keys = stick(tmp_path)
    (path,) = (root / "satchel").glob(kind)
    with path.open("r+b", buffering=0) as file:
        for at, byte in enumerate(path.read_bytes()):
            os.pwrite(file.fileno(), bytes([byte ^ 1]), at)
            with Media.open(root, keys) as media:
                assert _found(media, kind), at
            os.pwrite(file.fileno(), bytes([byte]), at)
    with Media.open(root, keys) as media:
        assert not _found(media, kind)


def _found(media: Media, kind: str) -> bool:
    if kind.startswith("packs"):
        report = media.verify()
        return bool(report.bad or report.damaged)
    try:
        (found,) = media.checkpoints("notes")
        return media.signed(found) != (MANIFEST, b"signature")
    except (MediaDamaged, ValueError):
        return True
