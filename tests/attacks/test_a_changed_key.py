# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A laptop that could open the stick is lost, and the stick gets another key. Who has that laptop
gets hold of the stick again: he has the key before, and all the time in the world."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from homeserver import Home
from homeserver.home import media_signing
from homeserver.media.care import verify_media
from media import (
    Media,
    MediaRevoked,
    MediaSealed,
    PreviousSeal,
    Seal,
    SealKeys,
    media_uuid,
    new_seal,
)
from replay import Log
from satchel.errors import SatchelError
from satchel.ids import OperationNumber
from tests.attacks.killed_rotation import settings_in
from tests.attacks.test_a_lost_stick import forge, key_pair
from tests.client.world import World
from tests.homeserver.conftest import Bench
from tests.homeserver.test_carry import run
from tests.media_keys import keys_of_client, sealed_for
from tests.needs import requires
from tests.scripted import operation, scripted_driver
from wire import Identity

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


def public(private: Path) -> str:
    return private.with_suffix(".pub").read_text()


@dataclass(frozen=True)
class Owner:
    """A home with a sealed stick, a laptop that stays, and one that was lost and had opened it.
    The stick has operations 1 to 3 of home's and 4 and 5 that home has not. phrase: the first"""

    bench: Bench
    root: Path
    laptop: Path
    lost: Path
    phrase: str

    @property
    def home(self) -> SealKeys:
        return self.bench.home.settings.media_keys

    def public(self) -> str:
        return public(self.laptop)

    def laptops(self) -> SealKeys:
        return keys_of_client(self.root.parent / "laptop's", self.laptop, self.bench.settings)

    def finders(self) -> SealKeys:
        return keys_of_client(self.root.parent / "finder's", self.lost, self.bench.settings)

    def raw(self) -> tuple[SealKeys, Seal]:
        """The finder's, with a program that looks for no newer key; and the key itself."""
        kept = (self.root.parent / "finder's" / media_uuid(self.root)).read_bytes()
        return SealKeys(self.root.parent / "finder's"), Seal((kept,))


@pytest.fixture
def owner(bench: Bench, tmp_path: Path) -> Owner:
    root, keys = tmp_path / "stick", bench.home.settings.media_keys
    root.mkdir()
    laptop, lost = key_pair(tmp_path, "laptop"), key_pair(tmp_path, "lost")
    seal = sealed_for(bench.settings, *map(public, (laptop, lost)))
    Media.init(root, seal, keys).close()
    service = bench.running()
    run(service, 1, 3)
    bench.home.carry("notes", root)
    with Media.open(root, keys) as media:
        path, secret = media.log_path("notes"), media.log_secret("notes")
        after = OperationNumber(3)
        with Log.open(path, after=after, keys=service.log_keys.ring, secret=secret) as log:
            for number in (4, 5):
                log.append(operation(number))
    made = Owner(bench, root, laptop, lost, seal.phrase)
    for opened in (made.laptops(), made.finders()):
        Media.open(root, opened).close()
    return made


def sealed_files(root: Path) -> set[Path]:
    folders = (root / "satchel" / name for name in ("packs", "commits", "checkpoints"))
    return {path for folder in folders for path in folder.iterdir()}


def opens(seal: Seal, path: Path) -> int:
    """How many blocks of a file that key opens, by docs/formats/sealed.md."""
    data, found = path.read_bytes(), 0
    for number in range(len(data) // 4096):
        block = data[number * 4096 : (number + 1) * 4096]
        try:
            bound = number.to_bytes(8, "little") + path.name.encode()
            AESGCM(seal.content[:32]).decrypt(block[:12], block[12:], bound)
            found += 1
        except InvalidTag:
            continue
    return found


def logged(root: Path, keys: SealKeys) -> list[int]:
    """The numbers of the operations that somebody with these keys finds there and believes."""
    with Media.open(root, keys) as media:
        path, secret = media.log_path("notes"), media.log_secret("notes")
        if not Log.exists(path):
            return []
        with Log.open(path, secret=secret, read_only=True) as log:
            assert not log.doubtful
            return [one.number for one in log.read(OperationNumber(log.first - 1))]


def test_the_key_before_opens_nothing_that_is_written_afterwards(owner: Owner) -> None:
    finder, old = owner.raw()
    before = sealed_files(owner.root)
    assert all(opens(old, path) for path in before)  # the search is one that finds
    rotated = owner.bench.home.rotate(owner.root, [owner.public()])
    assert (rotated.keys, rotated.logs) == (2, 1)
    run(owner.bench.home.service("notes"), 6, 9)
    owner.bench.home.carry("notes", owner.root)
    new = sealed_files(owner.root) - before
    assert {path.suffix for path in new} == {".pack", ".idx", ".commit", ".json", ".sig"}
    assert [opens(old, path) for path in new] == [0] * len(new)
    assert not any(old.named_by(path.stem) for path in new)
    # Nor does a program that goes on as if nothing had happened come to the new log.
    with Media.open(owner.root, finder) as media:
        assert not Log.exists(media.log_path("notes"))
    for segment in (owner.root / "satchel/log").glob("*.log"):
        log = segment.with_name(segment.name.rpartition("-")[0])
        with Log.open(log, secret=old.log_secret("notes"), read_only=True) as strange:
            assert len(strange.doubtful) == strange.last - strange.first + 1


def test_whoever_is_not_named_any_more_is_refused(owner: Owner) -> None:
    rotated = owner.bench.home.rotate(owner.root, [owner.public()])
    with pytest.raises(MediaSealed, match="another key"):
        Media.open(owner.root, owner.finders())
    paper = SealKeys(owner.root.parent / "paper")
    uuid = media_uuid(owner.root)
    with pytest.raises(MediaSealed, match="predates the last key rotation"):
        paper.unlock(owner.root, uuid, owner.phrase)
    paper.unlock(owner.root, uuid, rotated.phrase)
    for keys in (owner.home, owner.laptops(), paper):
        assert logged(owner.root, keys) == [4, 5]
        assert verify_media(owner.root, keys=keys)["ok"]


def test_a_key_that_somebody_else_made_is_not_taken(owner: Owner) -> None:
    """age tells nobody who has wrapped something, and the public key is public."""
    theirs = new_seal([owner.public()])
    longer = new_seal([owner.public()], before=PreviousSeal(theirs.uuid, theirs.seal))
    for number, forged in ((2, theirs), (2, longer), (9, longer)):
        (owner.root / f"satchel/key-{number}.age").write_bytes(forged.wrapped)
    for keys in (owner.home, owner.laptops()):
        with Media.open(owner.root, keys) as media:
            assert media.seal
            assert not set(longer.seal.keys) & set(media.seal.keys)
        assert logged(owner.root, keys) == [4, 5]


def test_a_key_that_the_finder_made_of_the_one_before_is_not_taken(owner: Owner) -> None:
    """He has the key before, the laptop's public key, the stick twice, and a signature of his."""
    _, had = owner.raw()
    theirs = Identity.create(owner.root.parent / "theirs")
    before = PreviousSeal(media_uuid(owner.root), had)
    for sign in (None, media_signing(theirs)):
        forged = new_seal([owner.public()], sign=sign, before=before)
        (owner.root / "satchel/key-2.age").write_bytes(forged.wrapped)
        for keys in (owner.home, owner.laptops()):
            with Media.open(owner.root, keys) as media:
                assert media.seal == had
    for key in (owner.root / "satchel").glob("key.age"):
        key.unlink()
    with pytest.raises(MediaSealed, match="home did not sign"):
        Media.open(owner.root, owner.laptops())


def test_a_key_of_another_medium_is_not_taken(owner: Owner) -> None:
    """He could open the other one, so what the laptop writes would be his to read."""
    forged = owner.root.parent / "forged"
    forged.mkdir()
    Media.init(forged, new_seal([]), None).close()
    (forged / "satchel/key.age").write_bytes((owner.root / "satchel/key.age").read_bytes())
    with pytest.raises(MediaSealed, match="home did not sign"):
        Media.open(forged, owner.laptops())


def test_an_operation_of_the_finders_does_not_get_the_owners_seal(owner: Owner) -> None:
    with Media.open(owner.root, owner.finders()) as media:
        forge(media.log_path("notes"))
    with pytest.raises(SatchelError, match="from 6 on"):
        owner.bench.home.rotate(owner.root, [owner.public()])
    with Media.open(owner.root, owner.home) as media:
        assert media.seal
        assert len(media.seal.keys) == 1


def test_it_can_be_changed_again_and_again(owner: Owner) -> None:
    for count in range(2, 17):
        assert owner.bench.home.rotate(owner.root, [owner.public()]).keys == count
        assert len(list((owner.root / "satchel").glob("key*.age"))) == 1
    with pytest.raises(SatchelError, match="no other key"):
        owner.bench.home.rotate(owner.root, [owner.public()])
    for keys in (owner.home, owner.laptops()):
        assert logged(owner.root, keys) == [4, 5]
    assert owner.bench.home.carry("notes", owner.root).operation == 5


def look_at_what_is_left(folder: Path, owner: Owner) -> None:
    """The laptop finds all that was logged, home too, and the next rotation leaves nothing over."""
    root, keys = (
        folder / "stick",
        keys_of_client(folder / "laptop's", owner.laptop, owner.bench.settings),
    )
    assert logged(root, keys) == [4, 5]
    home = Home(settings_in(folder), scripted_driver())
    try:
        with Media.open(root, home.settings.media_keys) as media, Media.open(root, keys) as other:
            assert media.seal == other.seal
        assert home.sync(["notes"], root).generation >= 1
        assert home.service("notes").last_logged == 5
        assert verify_media(root, keys=home.settings.media_keys)["ok"]
        home.rotate(root, [owner.public()])
    finally:
        home.close()
    assert logged(root, keys) == [4, 5]
    assert len(list((root / "satchel").glob("key*.age"))) == 1
    names = {
        path.name.partition("-")[0].partition(".")[0] for path in (root / "satchel/log").iterdir()
    }
    assert len(names) == 1
    assert not list((folder / "data/media-keys").glob("*.next"))
    with pytest.raises(MediaSealed, match="another key"):
        Media.open(root, owner.finders())


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.nightly, id="every step")])
def test_a_rotation_that_is_killed_loses_nothing(owner: Owner, tmp_path: Path, step: int) -> None:
    owner.bench.home.close()
    program = [sys.executable, "-m", "tests.attacks.killed_rotation"]
    argv = [*program, str(tmp_path), str(owner.bench.settings.data), owner.public(), str(step)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = [int(line.split()[0]) for line in done.stdout.splitlines()]
    assert done.stdout.splitlines()[-1].endswith("done")
    assert len(numbers) * step > 20
    for number in numbers:
        look_at_what_is_left(tmp_path / str(number), owner)


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh", "ssh-keygen")
@pytest.mark.parametrize("at_home", [True, False])
def test_a_client_refuses_what_home_has_revoked(
    world: World, settle_stick: Callable[[World], str], at_home: bool
) -> None:
    uuid = settle_stick(world)
    world.runner().close()
    world.home.home.settings.media_keys.revoke(uuid)
    with pytest.raises(MediaRevoked):  # it has opened the stick, and hears of it from home
        world.runner()
    if not at_home:
        world.home.cut()
    with pytest.raises(MediaRevoked):
        world.runner()


@pytest.fixture
def settle_stick() -> Callable[[World], str]:
    """Makes the world's stick a sealed one, with a checkpoint; its UUID."""

    def settle(world: World) -> str:
        keys = world.home.settings.media_keys
        for path in sorted(world.stick.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        Media.init(world.stick, sealed_for(world.home.settings, world.key.public), keys).close()
        world.home.launch("notes")
        world.home.home.carry("notes", world.stick)
        return media_uuid(world.stick)

    return settle
