# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Somebody finds the stick, has all the time in the world, and none of its keys."""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from chunkstore import Store
from client import ServiceSession
from client.session.checkpoints import OwnerOverrides
from homeserver import Service
from homeserver.media.care import media_contents, verify_media
from homeserver.media.unsealed import UnsealedPolicy
from media import Media, MediaCheckpoint, MediaRevoked, MediaSealed, SealKeys, media_uuid, new_seal
from replay import Log, Operation, OperationsDoubtful
from satchel.errors import UsageError
from satchel.ids import BLOCK_SIZE, CheckpointId, OperationNumber
from tests.chunkstore.content import noise
from tests.client.world import World, operations, post
from tests.homeserver.conftest import Bench
from tests.homeserver.test_carry import run
from tests.media_keys import sealed_for
from tests.needs import requires
from tests.scripted import operation

SERVICE = "diary-of-anna"
SECRET = b"the password is correct horse battery staple"
KNOWN = noise(7)
"""A block that the finder knows: of a Debian package, for example."""


def key_pair(folder: Path, name: str) -> Path:
    """A private SSH key; its public half is beside it."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@dataclass(frozen=True)
class Stick:
    """A stick with a checkpoint of three blocks, and a log. sealed: or in clear"""

    root: Path
    store: Store
    home: SealKeys
    client: Path
    checkpoint: CheckpointId
    phrase: str

    def parts(self) -> list[bytes]:
        """What a finder sees: names and contents, as they are."""
        files = sorted(path for path in self.root.rglob("*") if path.is_file())
        return [b"".join((str(f.relative_to(self.root)).encode(), f.read_bytes())) for f in files]

    def sealed_files(self) -> list[bytes]:
        """Without the logs, which have headers and room in clear."""
        folders = ("packs", "commits", "checkpoints")
        return [
            f.read_bytes() for name in folders for f in (self.root / "satchel" / name).iterdir()
        ]

    def finds(self, *planted: bytes) -> list[bytes]:
        """Which of these are somewhere on it."""
        return [each for each in planted if any(each in part for part in self.parts())]


def lose(folder: Path, block: bytes, *, sealed: bool = True) -> Stick:
    folder.mkdir()
    client = key_pair(folder, "id_ed25519")
    home = SealKeys(folder / "home")
    seal = new_seal([client.with_suffix(".pub").read_text()]) if sealed else None
    root = folder / "stick"
    root.mkdir()
    store = Store.create(folder / "store")
    volume = folder / "volume"
    volume.write_bytes(SECRET.ljust(BLOCK_SIZE, b"s") + block + noise(2))
    table = store.import_file(volume)
    manifest = f"manifest of {SERVICE}".encode()
    checkpoint = CheckpointId(hashlib.sha256(manifest).hexdigest()[:16])
    with Media.init(root, seal, home) as media:
        media.add(store, store.reachable([table]))
        media.put_checkpoint(SERVICE, checkpoint, manifest, b"signature")
        media.commit([MediaCheckpoint(SERVICE, checkpoint, (), whole=True)], [table])
        with Log.open(media.log_path(SERVICE), secret=media.log_secret(SERVICE)) as log:
            for number in (1, 2, 3):
                log.append(Operation(OperationNumber(number), 10**18 + number, 7, SECRET))
    return Stick(root, store, home, client, checkpoint, seal.phrase if seal else "")


def traces(stick: Stick) -> list[bytes]:
    """What would tell of the service, or of the block."""
    hashes = [hashlib.new(kind, KNOWN) for kind in ("sha1", "sha256")]
    return [
        SECRET[:24],
        SERVICE.encode(),
        SERVICE[:8].encode(),
        stick.checkpoint.encode(),
        bytes.fromhex(stick.checkpoint),
        KNOWN[:16],
        KNOWN[2048:2064],
        (10**18 + 2).to_bytes(8, "little"),
        *(each.digest() for each in hashes),
        *(each.digest()[:8] for each in hashes),
        *(each.hexdigest().encode() for each in hashes),
        *(each.hexdigest().upper().encode() for each in hashes),
        stick.phrase.encode() or b"AGE-SECRET-KEY",
    ]


def test_a_search_finds_nothing_of_what_was_planted(tmp_path: Path) -> None:
    clear = lose(tmp_path / "clear", KNOWN, sealed=False)
    assert len(clear.finds(*traces(clear))) >= 8  # the search is one that finds
    sealed = lose(tmp_path / "sealed", KNOWN)
    assert sealed.finds(*traces(sealed)) == []


def test_a_stick_with_a_known_block_looks_like_one_without(tmp_path: Path) -> None:
    sticks = [lose(tmp_path / name, block) for name, block in (("a", KNOWN), ("b", noise(9)))]
    sizes = [sorted(len(data) for data in s.sealed_files()) for s in sticks]
    assert sizes[0] == sizes[1]
    again = lose(tmp_path / "c", KNOWN)
    ours, theirs = (
        {data[at : at + 16] for data in stick.sealed_files() for at in range(0, len(data), 16)}
        for stick in (sticks[0], again)
    )
    assert len(ours) > 1000
    assert not ours & theirs


def test_no_block_on_it_is_sealed_as_another_one(tmp_path: Path) -> None:
    """Equal content would show, and who can guess a block would find it."""
    stick = lose(tmp_path / "stick", SECRET.ljust(BLOCK_SIZE, b"s"))
    for pack in (stick.root / "satchel/packs").glob("*.*"):
        data = pack.read_bytes()
        blocks = [data[at : at + 4096] for at in range(0, len(data), 4096)]
        assert len(set(blocks)) == len(blocks)
        assert len({block[:12] for block in blocks}) == len(blocks)


def test_a_stranger_does_not_open_it(tmp_path: Path) -> None:
    stick = lose(tmp_path / "stick", KNOWN)
    for keys in (None, SealKeys(tmp_path / "none", (key_pair(tmp_path, "stranger"),))):
        with pytest.raises(MediaSealed, match="is sealed"):
            Media.open(stick.root, keys)
    uuid = media_uuid(stick.root)
    wrong = SealKeys(tmp_path / "wrong")
    with pytest.raises(MediaSealed, match="stays sealed"):
        wrong.unlock(stick.root, uuid, new_seal([]).phrase)
    with pytest.raises(UsageError):
        wrong.unlock(stick.root, uuid, "open sesame")


def test_the_owner_does_with_home_with_a_key_and_with_the_phrase(tmp_path: Path) -> None:
    stick = lose(tmp_path / "stick", KNOWN)
    uuid = media_uuid(stick.root)
    phrase = SealKeys(tmp_path / "paper")
    phrase.unlock(stick.root, uuid, stick.phrase.lower())
    for keys in (stick.home, SealKeys(tmp_path / "laptop", (stick.client,)), phrase):
        with Media.open(stick.root, keys) as media:
            (found,) = media.checkpoints(SERVICE)
            assert found.whole
            assert media.signed(found) == (f"manifest of {SERVICE}".encode(), b"signature")
            assert media.verify().damaged == ()
            secret = media.log_secret(SERVICE)
            with Log.open(media.log_path(SERVICE), secret=secret, read_only=True) as log:
                assert [one.payload for one in log.read(OperationNumber(0))] == [SECRET] * 3
                assert [one.seed for one in log.read(OperationNumber(0))] == [7] * 3


def test_a_stick_whose_key_was_taken_off_it_is_not_taken_for_one_in_clear(tmp_path: Path) -> None:
    stick = lose(tmp_path / "stick", KNOWN)
    (stick.root / "satchel/key.age").unlink()
    with Media.open(stick.root, stick.home) as media:
        assert media.seal
        assert media.checkpoints(SERVICE)


@requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")
def test_home_works_with_a_sealed_stick_as_with_another(bench: Bench, tmp_path: Path) -> None:
    root, keys = tmp_path / "stick", bench.home.settings.media_keys
    root.mkdir()
    Media.init(root, new_seal([]), keys).close()
    service = bench.running()
    run(service, 1, 3)
    bench.home.carry("notes", root)
    with Media.open(root, keys) as media:
        path, secret = media.log_path("notes"), media.log_secret("notes")
        after = OperationNumber(3)
        with Log.open(path, after=after, keys=service.log_keys.ring, secret=secret) as log:
            for number in (4, 5):
                log.append(operation(number))
    assert bench.home.sync(["notes"], root).reconciled == 2
    assert bench.home.carry("notes", root).operation == 5
    assert verify_media(root, keys=keys)["ok"]
    assert {row["service"] for row in media_contents(root, keys)} == {"notes"}
    assert not any(b"notes" in path.name.encode() for path in root.rglob("*"))


def sealed_log(bench: Bench, folder: Path) -> tuple[Service, Path, Path, Operation]:
    """Home's service, a stick with operations 1 to 3 of its client, its log, and operation 4 of
    somebody who has found the stick: in clear, with all checksums."""
    root, keys = folder / "stick", bench.home.settings.media_keys
    root.mkdir()
    Media.init(root, new_seal([]), keys).close()
    service = bench.running()
    with Media.open(root, keys) as media:
        path, secret = media.log_path("notes"), media.log_secret("notes")
    with Log.open(path, keys=service.log_keys.ring, secret=secret) as log:
        for number in (1, 2, 3):
            log.append(operation(number))
    return service, root, path, forge(path)


def forge(path: Path) -> Operation:
    with Log.open(path) as log:
        forged = operation(log.last + 1, "/api/delete-everything")
        log.append(forged)
    return forged


@requires("nbdkit", "nbdfuse", "fuse")
def test_an_operation_that_was_appended_is_not_executed_at_home(
    bench: Bench, tmp_path: Path
) -> None:
    service, root, path, _ = sealed_log(bench, tmp_path)
    forge(path)
    for act in (bench.home.carry, lambda _, root: bench.home.sync([], root)):
        with pytest.raises(OperationsDoubtful, match=r"2 operations .* from 4 on"):
            act("notes", root)
        assert service.last_logged == 3
    bench.home.sync(["notes"], root, doubtful=UnsealedPolicy.DROP)
    assert b"delete-everything" not in b"".join(p.read_bytes() for p in path.parent.iterdir())
    run(service, 4, 5)
    assert bench.home.carry("notes", root).operation == 5


@requires("nbdkit", "nbdfuse", "fuse")
def test_the_owner_may_say_that_it_is_theirs(bench: Bench, tmp_path: Path) -> None:
    service, root, _, forged = sealed_log(bench, tmp_path)
    assert bench.home.sync(["notes"], root, doubtful=UnsealedPolicy.ACCEPT).reconciled == 4
    assert list(service.replayed.operations(OperationNumber(3), 1)) == [forged]


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")
@pytest.mark.parametrize("met_home", [True, False])
def test_a_client_does_not_replay_it_unless_it_is_told_to(world: World, met_home: bool) -> None:
    """One that never met home has no key of the service; the medium's key tells it all the same."""
    shutil.rmtree(world.stick)
    world.stick.mkdir()
    keys = world.home.settings.media_keys
    Media.init(world.stick, sealed_for(world.home.settings, world.key.public), keys).close()
    world.home.launch("notes")
    world.home.home.carry("notes", world.stick)
    if not met_home:
        world.home.cut()
    runner = world.runner()
    runner.move("a")
    assert post(world.proxy(runner)).status_code == 200
    runner.close()
    with Media.open(world.stick, keys) as media:
        forge(media.log_path("notes"))
    if met_home:
        world.home.cut()
    refused = ServiceSession(world.settings, "notes", media=world.stick)
    with pytest.raises(OperationsDoubtful, match="from 2 on"):
        refused.start()
    refused.close()
    assert operations(world.runner(accepted=OwnerOverrides(log=True))).journal.last == 2


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh", "ssh-keygen")
def test_a_client_works_with_a_sealed_stick_and_a_surrogate_gets_no_key(world: World) -> None:
    shutil.rmtree(world.stick)
    world.stick.mkdir()
    keys = world.home.settings.media_keys
    Media.init(world.stick, sealed_for(world.home.settings, world.key.public), keys).close()
    world.home.launch("notes")
    world.home.home.carry("notes", world.stick)
    runner = world.runner()
    assert post(world.proxy(runner), body=SECRET).status_code == 200
    runner.close()
    files = [path.read_bytes() for path in world.stick.rglob("*") if path.is_file()]
    assert not any(word in data for data in files for word in (SECRET, b"/api/notes", b"POST"))
    world.home.cut()
    runner = world.runner()  # from the stick alone, log included
    runner.move("a")
    assert post(world.proxy(runner), body=SECRET).status_code == 200
    assert operations(runner).journal.last == 2
    for place in (world.spots["a"].folder, world.spots["b"].folder):
        kept = keys.seal_of(world.stick, media_uuid(world.stick))
        assert kept is not None
        regular = (path for path in place.rglob("*") if path.is_file())
        assert not any(kept.keys[0] in path.read_bytes() for path in regular)


def test_a_revoked_stick_is_refused(tmp_path: Path) -> None:
    stick = lose(tmp_path / "stick", KNOWN)
    stick.home.revoke(media_uuid(stick.root))
    with pytest.raises(MediaRevoked):
        Media.open(stick.root, stick.home)
    with pytest.raises(MediaRevoked):  # nor does whoever has the phrase take that back
        stick.home.unlock(stick.root, media_uuid(stick.root), stick.phrase)


@pytest.mark.parametrize("suffix", [".pack", ".idx", ".commit", ".json", ".sig"])
def test_bytes_that_were_changed_are_found(tmp_path: Path, suffix: str) -> None:
    stick = lose(tmp_path / "stick", KNOWN)
    (path,) = (p for p in stick.root.rglob(f"*{suffix}") if p.name != "media.json")
    whole = path.read_bytes()
    for offset in {*range(0, len(whole), 509), len(whole) - 1}:
        changed = bytearray(whole)
        changed[offset] ^= 1
        path.write_bytes(changed)
        with Media.open(stick.root, stick.home) as media:
            report = media.verify()
            hurt = [g for g in media.generations() if not g.whole] or not media.generations()
            assert hurt or report.bad or report.damaged or suffix == ".idx"
    path.write_bytes(whole)
    with Media.open(stick.root, stick.home) as media:
        assert media.generations()[0].whole
