# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The contract of every kind of source: a medium in the client's hand, home, a peer surrogate, a
medium plugged in here, a store."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import flask
import pytest

from chunkstore import PageRange, Store, TableRoot, places_missing, split_refs
from client.moves.sources import media_app
from client.platform.activity_gate import ActivityGate
from client.platform.shaper import PathRate
from homeserver.api import home_app
from media import Media
from satchel.errors import NotFoundError, SatchelError
from satchel.ids import ZERO_REF, ChunkRef
from surrogate.fetching import Fetcher, Source
from surrogate.fetching.sources import MediaSource, SocketSource, StoreSource
from tests.chunkstore.content import noise
from wire import Priority, chunk_routes, install_errors, serve

SECONDS = 10.0
BLOCKS = 200
STRANGE = ChunkRef(b"\7" * 52)


@dataclass(frozen=True)
class Offer:
    """A source, all that it has, and a way to take that away."""

    source: Source
    store: Store
    root: TableRoot
    refs: bytes
    lose: Callable[[], object]

    def fetch(self, refs: bytes) -> bytes:
        return self.source.fetch(refs, Priority.DEMAND, SECONDS)

    def below(self, *places: PageRange) -> bytes:
        return self.source.below(places, Priority.PREFETCH, SECONDS)


def over_socket(name: str, app: flask.Flask, folder: Path) -> tuple[Source, Callable[[], object]]:
    server = serve(app, folder / f"{name}.sock", threads=4, max_body=1 << 20)
    return SocketSource(name, server.path), lambda: server.close(grace=0.0)


def made(kind: str, folder: Path, store: Store, refs: bytes) -> tuple[Source, Callable[[], object]]:
    if kind == "store":
        return StoreSource(kind, store), store.close
    if kind == "home":
        return over_socket(kind, home_app(_Home(store)), folder)  # type: ignore[arg-type]
    if kind == "old-home":
        app = flask.Flask(kind)
        install_errors(app)
        app.register_blueprint(chunk_routes(store.records))
        return over_socket(kind, app, folder)
    (folder / "stick").mkdir()
    media = Media.init(folder / "stick")
    media.add(store, refs)
    if kind == "plugged":
        media.close()
        source = MediaSource(folder / "stick")
        return source, source.close
    return over_socket(kind, media_app(media, ActivityGate(), PathRate()), folder)


class _Home:
    """As much of a home as its chunk routes use."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def service(self, name: str) -> None:
        raise NotFoundError(f"no service {name}")


@pytest.fixture(params=["store", "plugged", "media", "home", "old-home"])
def offer(request: pytest.FixtureRequest, short_path: Path) -> Iterator[Offer]:
    store = Store.create(short_path / "origin")
    path = short_path / "disk"
    path.write_bytes(noise(1, BLOCKS) + bytes(4096 * 300) + noise(2, 10))
    root = store.import_file(path)
    refs = store.reachable([root])
    source, lose = made(request.param, short_path, store, refs)
    yield Offer(source, store, root, refs, lose)
    source.close()
    lose()
    store.close()


def admitted(folder: Path, records: bytes) -> tuple[ChunkRef, ...]:
    with Store.create(folder / "admitted") as cache:
        return split_refs(cache.admit(records))


def test_it_gives_what_it_has_as_records_in_order(offer: Offer, tmp_path: Path) -> None:
    refs = split_refs(offer.refs)
    records = offer.fetch(b"".join([refs[7], STRANGE, refs[3], refs[5]]))
    assert admitted(tmp_path, records) == (refs[7], refs[3], refs[5])


def test_it_gives_nothing_for_what_it_has_not(offer: Offer) -> None:
    assert offer.fetch(STRANGE) == b""
    assert offer.fetch(b"") == b""


def test_half_of_a_reference_opens_nothing(offer: Offer) -> None:
    """Who asks has to know the SHA-256: the name alone, of another block, is not enough."""
    known = split_refs(offer.refs)[1]
    assert offer.fetch(known[:20] + STRANGE[20:]) == b""
    assert offer.fetch(STRANGE[:20] + known[20:]) == b""
    assert offer.below(PageRange(ChunkRef(known[:20] + STRANGE[20:]), 0, 0, 1)) == b""


def test_what_is_below_a_page_comes_with_it_or_the_page_alone(offer: Offer, tmp_path: Path) -> None:
    with Store.create(tmp_path / "cache") as cache:
        (place,) = places_missing(cache, offer.root, 130, 3)
        assert place == PageRange(offer.root.ref, 1, 130, 3)
        cache.admit(offer.below(place))
        missing = cache.missing_in(offer.root, 130 * 4096, 3 * 4096)
        if offer.source.name == "old-home":
            assert missing, "an old peer knows only the old request"
            return
        assert missing == b""
        assert (
            cache.read(offer.root, 130 * 4096, 3 * 4096) == noise(1, BLOCKS)[130 * 4096 :][:12288]
        )
        assert cache.stats().chunks == 2 + 3, "and nothing else"


def test_zeros_below_a_page_are_not_sent(offer: Offer, tmp_path: Path) -> None:
    records = offer.below(PageRange(offer.root.ref, 1, 256, 192))
    assert admitted(tmp_path, records) == (offer.root.ref,)


def test_a_page_that_it_has_not_gives_nothing(offer: Offer) -> None:
    assert offer.below(PageRange(STRANGE, 2, 0, 100)) == b""
    assert offer.below(PageRange(ZERO_REF, 0, 0, 1)) == b""


def test_a_chunk_that_is_no_page_gives_that_chunk_at_most(offer: Offer, tmp_path: Path) -> None:
    leaf = offer.store.put(noise(1, 1))
    assert set(admitted(tmp_path, offer.below(PageRange(ChunkRef(leaf), 0, 0, 64)))) <= {leaf}


def test_many_may_ask_at_once(offer: Offer) -> None:
    refs = split_refs(offer.refs)[:64]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(offer.fetch, refs))
    assert all(answers)


def test_once_it_is_gone_it_says_so_or_gives_nothing(offer: Offer) -> None:
    offer.lose()
    answers = []
    errors: list[Exception] = []

    def ask() -> None:
        try:
            answers.append(offer.fetch(offer.refs[:52]))
        except SatchelError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join(2 * SECONDS)
    assert not asking.is_alive()
    assert errors or answers == [b""]


def test_a_fetcher_reads_a_whole_volume_from_it(offer: Offer, tmp_path: Path) -> None:
    with Store.create(tmp_path / "cache") as cache:
        fetcher = Fetcher(cache, [offer.source], 8)
        for priority in (Priority.PREFETCH, Priority.DEMAND):
            assert fetcher.read(offer.root, priority=priority) == offer.store.read(offer.root)
        assert fetcher.faults() == {}
        fetcher.close()
