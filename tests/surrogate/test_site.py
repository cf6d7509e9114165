# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Media that are plugged into a surrogate, and its peers."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import Store, TableRoot, split_refs
from media import Media
from satchel.ids import CHUNK_REF_SIZE
from satchel.names import BadName
from satchel.settings import SettingsError
from surrogate import SurrogateSettings
from surrogate.fetching import Exchange, Fetcher
from surrogate.fetching.sources import MediaSource, SocketSource
from surrogate.site import Site, peer_app
from testbed.sshd import Sshd
from tests.chunkstore.content import noise
from tests.doors import door_of
from tests.needs import requires
from tests.surrogate.sources import StoreSource
from wire import Identity, Peer, Priority, fingerprint, serve


class Spot:
    """A host's cache and exchange, a folder in which sticks appear, and a home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Store.create(folder / "home")
        self.refs = self.home.put(noise(1, 100))
        self.cache = Store.create(folder / "cache")
        self.exchange = Exchange(self.cache)
        self.mounts = folder / "media"
        self.mounts.mkdir()
        self.sites: list[Site] = []

    def stick(self, place: str, refs: bytes) -> str:
        """A stick appears; its UUID."""
        root = self.mounts / place
        root.mkdir(parents=True)
        with Media.init(root) as media:
            media.add(self.home, refs)
            return media.uuid

    def site(self, **peers: Path | Peer) -> Site:
        there = {n: p if isinstance(p, Peer) else Peer(socket=str(p)) for n, p in peers.items()}
        settings = SurrogateSettings(media=(self.mounts,), peers=there, run=self.folder / "run")
        self.sites.append(Site(settings, self.exchange))
        return self.sites[-1]

    def fetcher(self, *sources: StoreSource) -> Fetcher:
        return Fetcher(self.cache, sources, 8, self.exchange)

    def close(self) -> None:
        for site in self.sites:
            site.close()
        self.exchange.close()


@pytest.fixture
def spot(short_path: Path) -> Iterator[Spot]:
    made = Spot(short_path)
    yield made
    made.close()


def test_a_stick_that_is_there_is_read_and_named_by_its_uuid(spot: Spot) -> None:
    uuid = spot.stick("anna/STICK", spot.refs)
    assert spot.site().names() == [f"media-{uuid[:8]}"]
    fetcher = spot.fetcher()
    fetcher.bring(spot.refs)
    assert all(spot.cache.has(spot.refs))
    assert fetcher.bytes_by_source().keys() == {f"media-{uuid[:8]}"}


def test_a_stick_comes_and_goes(spot: Spot) -> None:
    site = spot.site()
    assert site.names() == []
    spot.stick("STICK", spot.refs)
    site.look()
    assert len(site.names()) == 1
    shutil.rmtree(spot.mounts / "STICK")
    home = StoreSource("home", spot.home)
    fetcher = spot.fetcher(home)
    fetcher.bring(spot.refs)
    assert all(spot.cache.has(spot.refs)), "it was pulled out before anybody noticed"
    site.look()
    assert site.names() == []
    fetcher.close()


def test_a_stick_that_is_read_slowly_holds_up_no_status(
    spot: Spot, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = spot.site()
    spot.stick("STICK", spot.refs)
    opening, go_on = threading.Event(), threading.Event()

    def slow(root: Path) -> MediaSource:
        opening.set()
        go_on.wait(30.0)
        return MediaSource(root)

    monkeypatch.setattr("surrogate.site.MediaSource", slow)
    looking = threading.Thread(target=site.look)
    looking.start()
    assert opening.wait(30.0)
    asking = threading.Thread(target=site.names, daemon=True)
    asking.start()
    asking.join(5.0)
    answered = not asking.is_alive()
    go_on.set()
    looking.join()
    assert answered
    assert len(site.names()) == 1


def test_one_stick_at_two_places_counts_once(spot: Spot) -> None:
    spot.stick("a", spot.refs)
    shutil.copytree(spot.mounts / "a", spot.mounts / "b")
    assert len(spot.site().names()) == 1


@pytest.mark.parametrize("mark", [b"", b"{}", b'{"uuid": "../../x"}', b"\xff" * 100])
def test_what_only_looks_like_a_stick_is_left_alone(spot: Spot, mark: bytes) -> None:
    place = spot.mounts / "odd" / "satchel"
    place.mkdir(parents=True)
    (place / "media.json").write_bytes(mark)
    assert spot.site().names() == []


def test_a_stick_with_flipped_bits_hurts_nobody(spot: Spot) -> None:
    uuid = spot.stick("STICK", spot.refs)
    pack = next((spot.mounts / "STICK/satchel/packs").glob("*.pack"))
    data = bytearray(pack.read_bytes())
    for offset in range(3000, len(data), 20_000):
        data[offset] ^= 1
    pack.write_bytes(data)
    spot.site()
    home = StoreSource("home", spot.home)
    fetcher = spot.fetcher(home)
    fetcher.bring(spot.refs)
    assert all(spot.cache.has(spot.refs))
    assert 0 < sum(home.asked) < 50
    assert fetcher.bytes_by_source()[f"media-{uuid[:8]}"] > 0


def test_a_peer_gives_what_its_cache_has_and_home_the_rest(spot: Spot) -> None:
    refs = split_refs(spot.refs)
    with Store.create(spot.folder / "peer") as theirs:
        theirs.admit(spot.home.records(b"".join(refs[:60])))
        place = spot.folder / "peers.sock"
        with serve(peer_app(theirs), place, threads=4, max_body=1 << 20):
            assert spot.site(east=place).names() == ["peer-east"]
            home = StoreSource("home", spot.home)
            fetcher = spot.fetcher(home)
            fetcher.bring(spot.refs)
            fetched = fetcher.bytes_by_source()
    assert all(spot.cache.has(spot.refs))
    assert fetched["peer-east"] > 0
    assert 40 <= sum(home.asked) < 100


def test_a_peer_that_is_not_there_costs_nothing_but_its_fault(spot: Spot) -> None:
    spot.site(west=spot.folder / "nobody.sock")
    fetcher = spot.fetcher(StoreSource("home", spot.home))
    fetcher.bring(spot.refs)
    assert all(spot.cache.has(spot.refs))
    assert set(fetcher.faults()) <= {"peer-west"}


@requires("ssh", "sshd")
def test_a_peer_is_reached_over_a_link_of_our_own_also_after_it_broke(spot: Spot) -> None:
    key = Identity.create(spot.folder / "me")
    place = spot.folder / "there" / "peers.sock"
    place.parent.mkdir()
    keys = json.dumps([fingerprint(key.public)])
    door = door_of("satchel-surrogate", place.parent, **{"peer-keys": keys})
    with (
        Sshd.start(spot.folder / "sshd", authorized=[key.public], door=door) as sshd,
        serve(peer_app(spot.home), place, threads=4, max_body=1 << 20),
    ):
        peer = sshd.peer("east", key.path, spot.folder / "known_hosts")
        assert spot.site(east=peer).names() == ["peer-east"]
        fetcher = spot.fetcher()
        half = len(spot.refs) // 2 // CHUNK_REF_SIZE * CHUNK_REF_SIZE
        fetcher.bring(spot.refs[:half])
        sshd.drop_sessions()
        fetcher.bring(spot.refs[half:])
        assert all(spot.cache.has(spot.refs))
        assert fetcher.bytes_by_source().keys() == {"peer-east"}
        spot.close()
        assert not list((spot.folder / "run").rglob("*"))


def test_a_peer_learns_nothing_without_the_whole_reference(spot: Spot) -> None:
    root: TableRoot = spot.home.import_bytes(noise(3, 5))
    place = spot.folder / "peers.sock"
    with serve(peer_app(spot.home), place, threads=2, max_body=1 << 20):
        peer = SocketSource("peer", place)
        wrong = root.ref[:20] + bytes(32)
        assert peer.fetch(wrong, Priority.DEMAND, 5.0) == b""
        assert peer.fetch(root.ref, Priority.DEMAND, 5.0)
        peer.close()


@pytest.mark.parametrize(
    ("name", "value"), [("threads", 0), ("idle_minutes", -1.0), ("memory_mib", -5)]
)
def test_a_number_that_cannot_be_meant_is_refused(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=f"{name.replace('_', '-')} must"):
        SurrogateSettings(**{name: value})  # type: ignore[arg-type]


def test_a_peer_needs_a_name() -> None:
    with pytest.raises(BadName):
        SurrogateSettings(peers={"../x": Peer(socket="/run/x")})
